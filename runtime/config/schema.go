package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Schema gives the JSON schema of shield.yaml, for editors.
func Schema() []byte { return schemaOf(reflect.TypeFor[Config](), "shield.yaml of a Shield project") }

// RPCSchema gives the JSON schema of rpc.yaml.
func RPCSchema() []byte { return schemaOf(reflect.TypeFor[rpcFile](), "rpc.yaml of a Shield project") }

func schemaOf(t reflect.Type, title string) []byte {
	root := schemaSection(t)
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["title"] = title
	b, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("config: schema: %v", err)) // it is maps, lists and texts
	}
	return append(b, '\n')
}

func schemaSection(t reflect.Type) map[string]any {
	props := map[string]any{}
	var required []string
	for _, f := range fieldsOf(t) {
		props[f.key] = schemaField(t.Field(f.index).Type, f)
		if r, _ := parseRule(f.is); r.required && f.def == "" {
			required = append(required, f.key)
		}
	}
	out := map[string]any{"type": "object", "properties": props, "additionalProperties": false}
	if required != nil {
		out["required"] = required
	}
	return out
}

func schemaField(t reflect.Type, f field) map[string]any {
	var out map[string]any
	switch {
	case isSection(t):
		out = schemaSection(t)
	case t.Kind() == reflect.Slice && isSection(t.Elem()):
		out = map[string]any{"type": "array", "items": schemaSection(t.Elem())}
	case t.Kind() == reflect.Slice:
		out = map[string]any{"type": "array", "items": schemaScalar(t.Elem(), f)}
	case t.Kind() == reflect.Map:
		out = map[string]any{"type": "object"}
	default:
		out = schemaScalar(t, f)
		if f.def != "" {
			v := reflect.New(t).Elem()
			if err := setText(v, f, f.def); err == nil {
				out["default"] = plain(v, f)
			}
		}
	}
	if f.doc != "" {
		out["description"] = f.doc
	}
	return out
}

// reference is what any scalar may be instead: ${NAME} or ${NAME:default}.
var reference = map[string]any{"type": "string", "pattern": `\$\{`}

func schemaScalar(t reflect.Type, f field) map[string]any {
	r, _ := parseRule(f.is)
	switch {
	case t.Kind() == reflect.String && r.choices != nil:
		return anyOf(map[string]any{"enum": r.choices}, reference)
	case t.Kind() == reflect.String:
		return map[string]any{"type": "string"}
	case t.Kind() == reflect.Bool:
		return anyOf(map[string]any{"type": "boolean"}, reference)
	case t == durationType:
		return anyOf(map[string]any{"type": "integer", "minimum": 0}, text(`^([0-9.]+(ns|us|ms|s|m|h))+$`), reference)
	case t == idRangeType:
		return anyOf(map[string]any{"type": "integer", "minimum": 16}, text(`^[0-9]+(-[0-9]+)?$`), reference)
	case f.unit == "bytes":
		return anyOf(map[string]any{"type": "integer", "minimum": 0}, text(`^[0-9]+ *(B|KiB|MiB|GiB)?$`), reference)
	case f.unit == "per_second":
		return anyOf(map[string]any{"type": "number", "minimum": 0}, text(`^[0-9.]+(/s)?$`), reference)
	case r.choices != nil:
		var numbers []any
		for _, c := range r.choices {
			n, _ := strconv.Atoi(c) // a test parses them all
			numbers = append(numbers, n)
		}
		return anyOf(map[string]any{"enum": numbers}, reference)
	}
	number := map[string]any{"type": "integer"}
	if t.Kind() == reflect.Float64 {
		number["type"] = "number"
	}
	for key, bound := range map[string]string{"minimum": r.min, "maximum": r.max} {
		if n, err := strconv.ParseFloat(strings.TrimSpace(bound), 64); err == nil {
			number[key] = n
		}
	}
	return anyOf(number, reference)
}

func anyOf(options ...map[string]any) map[string]any {
	list := make([]any, len(options))
	for i, o := range options {
		list[i] = o
	}
	return map[string]any{"anyOf": list}
}

func text(pattern string) map[string]any {
	return map[string]any{"type": "string", "pattern": pattern}
}

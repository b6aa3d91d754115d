package config

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"shield/runtime/shield"
)

// decoder fills structs from nodes. It goes on after a problem, so that one run
// finds them all.
type decoder struct {
	problems []Problem
	origins  map[string]Origin // of values
	sections map[string]Pos    // of mappings with keys of their own
	// broken holds the paths whose value could not be taken; rules are not
	// applied to them, one complaint is enough.
	broken map[string]bool
	// limits are those of the top level, which entries of services start from.
	limits *Limits
}

func newDecoder() *decoder {
	return &decoder{origins: map[string]Origin{}, sections: map[string]Pos{}, broken: map[string]bool{}}
}

func (d *decoder) problem(pos Pos, path, cure, format string, args ...any) {
	d.problems = append(d.problems, Problem{Pos: pos, Path: path, Cure: cure, Message: fmt.Sprintf(format, args...)})
	d.broken[path] = true
}

func (d *decoder) origin(path string, n *node) {
	o := Origin{Source: FromFile, Pos: n.pos, Env: n.env}
	if strings.HasPrefix(n.pos.File, "env ") {
		o.Source, o.Pos = FromEnv, Pos{}
	}
	d.origins[path] = o
}

// section fills a struct from a mapping.
func (d *decoder) section(v reflect.Value, n *node, path string) {
	if n == nil || n.kind == scalar && n.val == nil {
		return // `cluster:` with nothing under it
	}
	if n.kind != mapping {
		d.problem(n.pos, path, "", "want a mapping, have %s", n.what())
		return
	}
	d.sections[path] = n.pos
	for _, e := range n.entries {
		f, ok := findField(v.Type(), e.key)
		if !ok {
			d.unknownKey(v.Type(), e, path)
			continue
		}
		d.value(v.Field(f.index), f, e.value, join(path, e.key))
	}
}

func findField(t reflect.Type, key string) (field, bool) {
	for _, f := range fieldsOf(t) {
		if f.key == key {
			return f, true
		}
	}
	return field{}, false
}

// mostKnown is how many keys a message lists for one that nothing is near to.
const mostKnown = 32

func (d *decoder) unknownKey(t reflect.Type, e entry, path string) {
	keys := keysOf(t)
	cure := ""
	if near := shield.Nearest(e.key, keys); near != "" {
		cure = fmt.Sprintf("did you mean %q?", near)
	} else if len(keys) <= mostKnown {
		cure = "known: " + strings.Join(keys, ", ")
	}
	pos := e.pos
	d.problem(pos, join(path, clip(e.key)), cure, "unknown key")
}

func (d *decoder) value(v reflect.Value, f field, n *node, path string) {
	if n == nil || n.kind == scalar && n.val == nil && n.env == "" {
		return // no value: the default stays
	}
	if isSection(v.Type()) {
		d.section(v, n, path)
		return
	}
	if v.Kind() == reflect.Slice && isSection(v.Type().Elem()) {
		d.sections[path] = n.pos
	} else {
		d.origin(path, n)
	}
	switch v.Kind() {
	case reflect.Slice:
		d.list(v, f, n, path)
	case reflect.Map:
		d.free(v, n, path)
	default:
		d.scalar(v, f, n, path)
	}
}

func (d *decoder) list(v reflect.Value, f field, n *node, path string) {
	elem := v.Type().Elem()
	if n.loose && n.kind == scalar && !isSection(elem) {
		n = splitCommas(n)
	}
	if n.kind != list {
		d.problem(n.pos, path, listCure(n), "want a list, have %s", n.what())
		return
	}
	out := reflect.MakeSlice(v.Type(), 0, len(n.items))
	for i, item := range n.items {
		ev := reflect.New(elem).Elem()
		at := index(path, i)
		switch {
		case item == nil || item.kind == scalar && item.val == nil:
			pos := n.pos
			if item != nil {
				pos = item.pos
			}
			d.problem(pos, at, "", "an entry with nothing in it")
		case isSection(elem):
			setDefaults(ev)
			d.element(ev, item)
			d.section(ev, item, at)
		default:
			d.origin(at, item)
			d.scalar(ev, f, item, at)
		}
		out = reflect.Append(out, ev)
	}
	v.Set(out)
}

// element prepares one entry of a list of sections: its place, and for a
// service the limits that it inherits.
func (d *decoder) element(v reflect.Value, n *node) {
	switch e := v.Addr().Interface().(type) {
	case *Service:
		e.Pos = n.pos
		if d.limits != nil {
			e.Limits = *d.limits
		}
	case *Gateway:
		e.Pos = n.pos
	case *rpcRoute:
		e.Pos = n.pos
	}
}

func listCure(n *node) string {
	if n.kind == scalar {
		return fmt.Sprintf("write [%v]", n.val)
	}
	return ""
}

// splitCommas makes a list of a text from the environment: a,b,c.
func splitCommas(n *node) *node {
	out := &node{kind: list, pos: n.pos, env: n.env}
	text := strings.TrimSpace(fmt.Sprint(n.val))
	if text == "" {
		return out
	}
	for _, part := range strings.Split(text, ",") {
		out.items = append(out.items, &node{pos: n.pos, env: n.env, loose: true, val: strings.TrimSpace(part)})
	}
	return out
}

func (d *decoder) scalar(v reflect.Value, f field, n *node, path string) {
	bad := func() {
		cure, have := quoteCure(v, n), n.what()
		if f.secret && n.kind == scalar { // what is in a secret's place may be one
			cure, have = "write it in quotes", "something else"
		}
		d.problem(n.pos, path, cure, "want %s, have %s", wants(v.Type(), f), have)
	}
	if n.kind != scalar {
		bad()
		return
	}
	text, isText := n.val.(string)
	if !isText {
		text = numberText(n.val)
	}
	switch {
	case v.Kind() == reflect.String:
		if !isText {
			bad()
			return
		}
		v.SetString(text)
		return
	case isText && v.Kind() == reflect.Bool && !n.loose,
		isText && f.unit == "" && v.Type() != idRangeType && !n.loose,
		!isText && v.Kind() != reflect.Bool && isBool(n.val),
		!isText && v.Kind() == reflect.Bool && !isBool(n.val):
		bad()
		return
	}
	if err := setText(v, f, text); err != nil {
		d.problem(n.pos, path, "", "%v", err)
	}
}

// quoteCure tells how to write a number where text is wanted.
func quoteCure(v reflect.Value, n *node) string {
	if v.Kind() != reflect.String || n.kind != scalar {
		return ""
	}
	return fmt.Sprintf("write \"%s\"", numberText(n.val))
}

func isBool(v any) bool { _, ok := v.(bool); return ok }

func numberText(v any) string {
	switch v := v.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1e15 {
			return strconv.FormatFloat(v, 'f', -1, 64)
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	case nil:
		return ""
	default:
		return fmt.Sprint(v)
	}
}

// free fills a mapping whose keys are the game's own business.
func (d *decoder) free(v reflect.Value, n *node, path string) {
	if n.kind != mapping {
		d.problem(n.pos, path, "", "want a mapping, have %s", n.what())
		return
	}
	out, _ := d.freeValue(n).(map[string]any)
	v.Set(reflect.ValueOf(out))
}

func (d *decoder) freeValue(n *node) any {
	if n == nil {
		return nil
	}
	switch n.kind {
	case mapping:
		out := make(map[string]any, len(n.entries))
		for _, e := range n.entries {
			out[e.key] = d.freeValue(e.value)
		}
		return out
	case list:
		out := make([]any, len(n.items))
		for i, item := range n.items {
			out[i] = d.freeValue(item)
		}
		return out
	}
	switch v := n.val.(type) {
	case uint64:
		if v > math.MaxInt64 {
			return float64(v)
		}
		return int64(v)
	case string:
		if n.loose && !n.quoted {
			return looseValue(v)
		}
		return v
	default:
		return n.val
	}
}

// looseValue types a text from the environment the way YAML types a bare word.
func looseValue(s string) any {
	switch s {
	case "true":
		return true
	case "false":
		return false
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i
	}
	if x, err := strconv.ParseFloat(s, 64); err == nil && !math.IsNaN(x) && !math.IsInf(x, 0) {
		return x
	}
	return s
}

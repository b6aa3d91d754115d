package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestReferenceIsFresh holds the tables of docs/configuration.md to the structs.
// SHIELD_UPDATE=1 rewrites them.
func TestReferenceIsFresh(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "configuration.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const mark = "rewrites what follows -->\n"
	head, have, ok := strings.Cut(string(text), mark)
	if !ok {
		t.Fatalf("%s has no mark for the tables", path)
	}
	var b strings.Builder
	keyTables(&b, "shield.yaml", roots["shield.yaml"])
	keyTables(&b, "rpc.yaml", roots["rpc.yaml"])
	want := b.String()
	if os.Getenv("SHIELD_UPDATE") == "1" {
		if err := os.WriteFile(path, []byte(head+mark+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have != want {
		t.Error("the tables are old; refresh them with: SHIELD_UPDATE=1 go test ./runtime/config")
	}
}

// keyTables writes a table of every key for each section of a file.
func keyTables(b *strings.Builder, file string, root reflect.Type) {
	fmt.Fprintf(b, "\n## %s\n", file)
	last := ""
	eachField(root, "", func(sf reflect.StructField, f field, path string) {
		if !leaf(sf.Type) {
			return
		}
		section := path[:max(0, strings.LastIndexByte(path, '.'))]
		if section != last {
			fmt.Fprintf(b, "\n### %s\n\n| key | default | what |\n| --- | --- | --- |\n", section)
			last = section
		}
		def := f.def
		switch {
		case def == "" && strings.Contains(f.is, "required"):
			def = "required"
		case def == "" && sf.Type.Kind() == reflect.Bool:
			def = "false"
		case def == "" && (sf.Type.Kind() == reflect.Int || sf.Type == durationType || sf.Type.Kind() == reflect.Float64):
			def = "0"
		}
		if def != "" && def != "required" {
			def = "`" + def + "`"
		}
		doc := f.doc
		if r, _ := parseRule(f.is); r.choices != nil {
			doc = strings.Join(r.choices, ", ") + ": " + doc
		}
		if f.later == "set" {
			doc += " (planned, refused until then)"
		} else if f.later != "" {
			doc += " (planned: " + strings.ReplaceAll(f.later, "|", ", ") + ")"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", f.key, def, strings.ReplaceAll(doc, "|", "\\|"))
	})
}

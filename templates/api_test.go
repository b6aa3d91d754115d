package templates

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// declared is one function or class of types/shield.lua.
type declared struct {
	call    string   // shield.call(target, method, ...)
	text    []string // what it does
	returns []string
	fields  [][2]string // of a class: name and the rest of the line
}

// section is the heading of the page that a function stands under.
func (d *declared) section() string {
	name, _, _ := strings.Cut(d.call, "(")
	if i := strings.LastIndexAny(name, ".:"); i >= 0 {
		return name[:i]
	}
	return name
}

var functionRE = regexp.MustCompile(`^function ([\w.:]+\(.*\)) end$`)

// declarations reads types/shield.lua: a comment block, then what it is about.
func declarations(src string) (functions, classes []declared) {
	var d declared
	for line := range strings.SplitSeq(src, "\n") {
		tag, rest, _ := strings.Cut(strings.TrimPrefix(line, "---@"), " ")
		switch {
		case strings.HasPrefix(line, "---@class"):
			name, about, _ := strings.Cut(rest, " ")
			d = declared{call: name, text: d.text}
			if about != "" {
				d.text = append(d.text, about)
			}
		case strings.HasPrefix(line, "---@field"):
			name, about, _ := strings.Cut(rest, " ")
			d.fields = append(d.fields, [2]string{name, about})
		case strings.HasPrefix(line, "---@") && tag == "return":
			d.returns = append(d.returns, rest)
		case strings.HasPrefix(line, "---@"):
		case strings.HasPrefix(line, "---"):
			d.text = append(d.text, strings.TrimPrefix(line, "---"))
		default:
			if m := functionRE.FindStringSubmatch(line); m != nil {
				d.call = m[1]
				functions = append(functions, d)
			} else if len(d.fields) > 0 {
				classes = append(classes, d)
			}
			d = declared{}
		}
	}
	return functions, classes
}

// apiTables prints every function with one line, and the fields of what they
// take and give.
func apiTables(functions, classes []declared) string {
	var b strings.Builder
	cell := func(s string) string { return strings.ReplaceAll(s, "|", "\\|") }
	last := ""
	for _, d := range functions {
		if s := d.section(); s != last {
			fmt.Fprintf(&b, "\n## %s\n\n| call | what | returns |\n| --- | --- | --- |\n", s)
			last = s
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", d.call, cell(strings.Join(d.text, " ")), cell(strings.Join(d.returns, ", ")))
	}
	for _, d := range classes {
		if d.call == "shieldlib" {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n", d.call)
		if len(d.text) > 0 {
			fmt.Fprintf(&b, "\n%s\n", strings.Join(d.text, " "))
		}
		fmt.Fprintf(&b, "\n| field | type and meaning |\n| --- | --- |\n")
		for _, f := range d.fields {
			fmt.Fprintf(&b, "| %s | %s |\n", f[0], cell(f[1]))
		}
	}
	return b.String()
}

// TestLuaAPIPageIsFresh holds the tables of docs/lua-api.md to types/shield.lua,
// which TestTypesMatchTheAPI holds to the API. SHIELD_UPDATE=1 rewrites them.
func TestLuaAPIPageIsFresh(t *testing.T) {
	src, err := files.ReadFile("common/types/shield.lua")
	if err != nil {
		t.Fatal(err)
	}
	functions, classes := declarations(string(src))
	slices.SortStableFunc(functions, func(a, b declared) int { return strings.Compare(order(a.section()), order(b.section())) })
	for _, d := range functions {
		if len(d.text) == 0 {
			t.Errorf("%s has no line that says what it does", d.call)
		}
	}
	path := filepath.Join("..", "docs", "lua-api.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const mark = "rewrites what follows -->\n"
	head, have, ok := strings.Cut(string(text), mark)
	if !ok {
		t.Fatalf("%s has no mark for the tables", path)
	}
	want := apiTables(functions, classes)
	if os.Getenv("SHIELD_UPDATE") == "1" {
		if err := os.WriteFile(path, []byte(head+mark+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("the tables are old; SHIELD_UPDATE=1 go test ./templates rewrites them (-want +have):\n%s", diff)
	}
}

// order puts shield first, its parts next, and what they give last.
func order(section string) string {
	if strings.HasPrefix(section, "shield") {
		return "0" + section
	}
	return "1" + section
}

package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func atDefault[T any]() T {
	var v T
	setDefaults(reflect.ValueOf(&v).Elem())
	return v
}

// eachField walks every key of a section type, entries of lists included.
func eachField(t reflect.Type, path string, visit func(sf reflect.StructField, f field, path string)) {
	for _, f := range fieldsOf(t) {
		sf := t.Field(f.index)
		at := join(path, f.key)
		visit(sf, f, at)
		switch ft := sf.Type; {
		case isSection(ft):
			eachField(ft, at, visit)
		case ft.Kind() == reflect.Slice && isSection(ft.Elem()):
			eachField(ft.Elem(), at+"[]", visit)
		}
	}
}

func leaf(t reflect.Type) bool {
	return !isSection(t) && !(t.Kind() == reflect.Slice && isSection(t.Elem()))
}

var roots = map[string]reflect.Type{"shield.yaml": reflect.TypeFor[Config](), "rpc.yaml": reflect.TypeFor[rpcFile]()}

// TestEveryFieldIsDeclared fails when a field is added without saying what its
// key, rule and meaning are.
func TestEveryFieldIsDeclared(t *testing.T) {
	for file, root := range roots {
		everyStruct(root, func(st reflect.Type) {
			for i := range st.NumField() {
				if sf := st.Field(i); sf.IsExported() && sf.Tag.Get("key") == "" {
					t.Errorf("%s: %s.%s has no key tag", file, st.Name(), sf.Name)
				}
			}
		})
		eachField(root, "", func(sf reflect.StructField, f field, path string) {
			if f.doc == "" {
				t.Errorf("%s: %s has no doc tag", file, path)
			}
			if !leaf(sf.Type) {
				return
			}
			r, ok := parseRule(f.is)
			if !ok {
				t.Errorf("%s: %s has no rule (is:%q); write is:\"any\" if every value is right", file, path, f.is)
			}
			elem := sf.Type
			if elem.Kind() == reflect.Slice {
				elem = elem.Elem()
			}
			numeric := elem == durationType || elem.Kind() == reflect.Int || elem.Kind() == reflect.Float64
			if numeric && !r.ranged && r.choices == nil {
				t.Errorf("%s: %s is a number without a range", file, path)
			}
			for _, text := range []string{f.def, r.min, r.max} {
				if text == "" {
					continue
				}
				if err := setText(reflect.New(elem).Elem(), f, text); err != nil {
					t.Errorf("%s: %s: %q: %v", file, path, text, err)
				}
			}
			if elem == durationType && f.unit == "" {
				t.Errorf("%s: %s is a duration without a unit", file, path)
			}
		})
	}
}

func everyStruct(t reflect.Type, visit func(reflect.Type)) {
	visit(t)
	for _, f := range fieldsOf(t) {
		switch ft := t.Field(f.index).Type; {
		case isSection(ft):
			everyStruct(ft, visit)
		case ft.Kind() == reflect.Slice && isSection(ft.Elem()):
			everyStruct(ft.Elem(), visit)
		}
	}
}

// TestDefaultsAreValid holds that a project that says nothing is right.
func TestDefaultsAreValid(t *testing.T) {
	if ps := Default().Validate(Options{}); len(ps) > 0 {
		t.Errorf("Default().Validate() = %v, want none", ps)
	}
}

// fill gives every exported field below v a value of its own that isn't zero.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), n)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]any{"a": int64(*n), "b": []any{"x", map[string]any{"c": true}}}))
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint32:
		v.SetUint(uint64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n))
	default:
		panic("fill does not know " + v.Type().String())
	}
}

// disturb changes everything below v that can be reached without copying.
func disturb(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				disturb(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			disturb(v.Index(i))
			if v.Index(i).CanSet() {
				v.Index(i).SetZero()
			}
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			disturb(v.MapIndex(k))
			v.SetMapIndex(k, reflect.Value{})
		}
	case reflect.Interface:
		if !v.IsNil() {
			disturb(v.Elem())
		}
	}
}

func TestCloneSharesNothing(t *testing.T) {
	make := func() *Config {
		c, n := &Config{}, 0
		fill(reflect.ValueOf(c).Elem(), &n)
		c.origins = map[string]Origin{"app.name": {Source: FromEnv}}
		c.sections = map[string]Pos{"app": {Line: 1}}
		return c
	}
	want, have := make(), make()
	clone := have.Clone()
	disturb(reflect.ValueOf(have).Elem())
	clear(have.origins)
	clear(have.sections)
	if diff := cmp.Diff(want, clone, cmp.AllowUnexported(Config{})); diff != "" {
		t.Errorf("the clone changed with its original (-want +have):\n%s", diff)
	}
}

// TestSchemaHasEveryKey holds the schema to the structs.
func TestSchemaHasEveryKey(t *testing.T) {
	for file, schema := range map[string][]byte{"shield.yaml": Schema(), "rpc.yaml": RPCSchema()} {
		var root map[string]any
		if err := json.Unmarshal(schema, &root); err != nil {
			t.Fatalf("%s: schema is no JSON: %v", file, err)
		}
		eachField(roots[file], "", func(_ reflect.StructField, f field, path string) {
			at := any(root)
			for _, step := range strings.Split(strings.ReplaceAll(path, "[]", ".[]"), ".") {
				m, _ := at.(map[string]any)
				if step == "[]" {
					at = m["items"]
					continue
				}
				props, _ := m["properties"].(map[string]any)
				at = props[step]
			}
			if m, ok := at.(map[string]any); !ok || m["description"] != f.doc {
				t.Errorf("%s: schema of %s = %v, want one with its doc", file, path, at)
			}
		})
	}
}

// TestValuesHasEveryKey holds `config show` to the structs.
func TestValuesHasEveryKey(t *testing.T) {
	c, n := &Config{}, 0
	fill(reflect.ValueOf(c).Elem(), &n)
	have := map[string]bool{}
	for _, v := range c.Values() {
		path := v.Path
		for _, i := range []string{"[0]", "[1]"} {
			path = strings.ReplaceAll(path, i, "[]")
		}
		have[path] = true
		if v.Secret && v.Value != Hidden {
			t.Errorf("%s = %v is shown, want it hidden", v.Path, v.Value)
		}
	}
	eachField(roots["shield.yaml"], "", func(sf reflect.StructField, _ field, path string) {
		if leaf(sf.Type) && sf.Type.Kind() != reflect.Map && !have[path] {
			t.Errorf("%s is not among the values", path)
		}
	})
}

func TestEnvironmentReachesEveryKey(t *testing.T) {
	eachField(roots["shield.yaml"], "", func(sf reflect.StructField, f field, path string) {
		if strings.Contains(path, "[]") || !leaf(sf.Type) || sf.Type.Kind() == reflect.Map {
			return
		}
		text, want := "x1", any("x1")
		switch {
		case sf.Type == durationType:
			text, want = "1234ms", 1234*time.Millisecond
		case sf.Type.Kind() == reflect.Int:
			text, want = "77", 77
		case sf.Type.Kind() == reflect.Bool:
			text, want = "true", true
		case sf.Type.Kind() == reflect.Slice:
			text, want = "x1,y2", []string{"x1", "y2"}
		}
		name := "SHIELD__" + strings.ToUpper(strings.ReplaceAll(path, ".", "__"))
		l, err := newLoader(Options{Dir: t.TempDir(), Environ: []string{name + "=" + text}})
		if err != nil {
			t.Fatal(err)
		}
		root, ps := l.env.override(nil)
		if len(ps) > 0 {
			t.Errorf("%s: %v", name, ps)
		}
		cfg := l.decode(root)
		v := reflect.ValueOf(cfg).Elem()
		for _, step := range strings.Split(path, ".") {
			sf, _ := findField(v.Type(), step)
			v = v.Field(sf.index)
		}
		have := v.Interface()
		if v.Kind() == reflect.String {
			have = v.String()
		}
		if diff := cmp.Diff(want, have, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s=%s (-want +have):\n%s", name, text, diff)
		}
		if o := cfg.Origin(path); o.Source != FromEnv || o.Env != name {
			t.Errorf("origin of %s = %+v, want env %s", path, o, name)
		}
	})
}

package config

import (
	"fmt"
	"reflect"
	"sort"
	"strings"
	"time"
)

// Hidden stands for a secret that is set.
const Hidden = "(hidden)"

// Value is one key and what it is set to, for `shield config show`.
type Value struct {
	Path   string `json:"path"`
	Value  any    `json:"value"` // text, number, boolean, list or null
	Origin Origin `json:"origin"`
	Secret bool   `json:"secret,omitempty"`

	unit string
}

// Text is the value the way a file would write it.
func (v Value) Text() string {
	switch x := v.Value.(type) {
	case nil:
		return ""
	case []any:
		parts := make([]string, len(x))
		for i, e := range x {
			parts[i] = fmt.Sprint(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case int:
		if v.unit == "bytes" {
			return formatSize(int64(x))
		}
		return fmt.Sprint(x)
	default:
		return fmt.Sprint(x)
	}
}

// Values lists every key with its value and origin, in the order of the
// documentation. Secrets are hidden.
func (c *Config) Values() []Value {
	var out []Value
	c.values(reflect.ValueOf(c).Elem(), "", &out)
	return out
}

func (c *Config) values(s reflect.Value, path string, out *[]Value) {
	for _, f := range fieldsOf(s.Type()) {
		v, at := s.Field(f.index), join(path, f.key)
		switch {
		case isSection(v.Type()):
			c.values(v, at, out)
		case v.Kind() == reflect.Slice && isSection(v.Type().Elem()):
			for i := range v.Len() {
				c.values(v.Index(i), index(at, i), out)
			}
		case v.Kind() == reflect.Map:
			c.freeValues(v.Interface().(map[string]any), at, out)
		default:
			val := Value{Path: at, Value: plain(v, f), Origin: c.Origin(at), Secret: f.secret, unit: f.unit}
			if f.secret && !v.IsZero() {
				val.Value = Hidden
			}
			*out = append(*out, val)
		}
	}
}

// freeValues lists what a game keeps under services[n].config. Keys that sound
// like secrets are treated as such.
func (c *Config) freeValues(m map[string]any, path string, out *[]Value) {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		at := join(path, k)
		if sub, ok := m[k].(map[string]any); ok && !soundsSecret(k) {
			c.freeValues(sub, at, out)
			continue
		}
		v := Value{Path: at, Value: m[k], Origin: c.Origin(path), Secret: soundsSecret(k)}
		if v.Secret && m[k] != nil {
			v.Value = Hidden
		}
		*out = append(*out, v)
	}
}

func soundsSecret(key string) bool {
	key = strings.ToLower(key)
	for _, word := range []string{"password", "passwd", "secret", "token", "private_key", "api_key", "apikey", "dsn"} {
		if strings.Contains(key, word) {
			return true
		}
	}
	return false
}

// plain makes a value of a field that JSON and people can read.
func plain(v reflect.Value, f field) any {
	switch x := v.Interface().(type) {
	case time.Duration:
		switch {
		case f.unit == "s":
			return x.Seconds()
		case strings.HasSuffix(f.key, "_ms"):
			return x.Milliseconds()
		}
		return x.String() // the key names no unit
	case IDRange:
		return x.String()
	}
	switch v.Kind() {
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range v.Len() {
			out[i] = plain(v.Index(i), f)
		}
		return out
	case reflect.String:
		return v.String()
	}
	return v.Interface()
}

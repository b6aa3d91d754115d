package config

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"shield/runtime/shield"
)

// field is what the tags of a struct field say.
type field struct {
	index  int
	key    string
	def    string
	is     string
	later  string
	unit   string
	doc    string
	secret bool
}

var fieldCache sync.Map // reflect.Type -> []field

// fieldsOf lists the fields of a struct that a file can set, in order.
func fieldsOf(t reflect.Type) []field {
	if f, ok := fieldCache.Load(t); ok {
		return f.([]field)
	}
	var fields []field
	for i := range t.NumField() {
		sf := t.Field(i)
		key := sf.Tag.Get("key")
		if !sf.IsExported() || key == "-" || key == "" {
			continue
		}
		fields = append(fields, field{index: i, key: key, def: sf.Tag.Get("default"), is: sf.Tag.Get("is"), later: sf.Tag.Get("later"),
			unit: sf.Tag.Get("unit"), doc: sf.Tag.Get("doc"), secret: sf.Tag.Get("secret") == "yes"})
	}
	fieldCache.Store(t, fields)
	return fields
}

func keysOf(t reflect.Type) []string {
	var keys []string
	for _, f := range fieldsOf(t) {
		keys = append(keys, f.key)
	}
	return keys
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	idRangeType  = reflect.TypeFor[IDRange]()
)

// isSection reports a struct with keys of its own, in contrast to a value that
// happens to be a struct.
func isSection(t reflect.Type) bool { return t.Kind() == reflect.Struct && t != idRangeType }

// setDefaults puts the defaults of the tags into a struct and its sections.
func setDefaults(v reflect.Value) {
	for _, f := range fieldsOf(v.Type()) {
		fv := v.Field(f.index)
		switch {
		case isSection(fv.Type()):
			setDefaults(fv)
		case f.def != "":
			if err := setText(fv, f, f.def); err != nil {
				panic(fmt.Sprintf("config: default of %s: %v", f.key, err)) // a test sets them all
			}
		}
	}
}

// Default gives a project with no services: every key at its default.
func Default() *Config {
	c := &Config{}
	setDefaults(reflect.ValueOf(c).Elem())
	return c
}

// setText gives a scalar field the value that a text stands for.
func setText(v reflect.Value, f field, text string) error {
	text = strings.TrimSpace(text)
	switch {
	case v.Type() == durationType:
		d, err := parseDuration(text, f.unit)
		if err == nil {
			v.SetInt(int64(d))
		}
		return err
	case v.Type() == idRangeType:
		r, err := parseIDRange(text)
		if err == nil {
			v.Set(reflect.ValueOf(r))
		}
		return err
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		switch text {
		case "true":
			v.SetBool(true)
		case "false":
			v.SetBool(false)
		default:
			return fmt.Errorf("want true or false, have %q", clip(text))
		}
	case reflect.Int:
		n, err := parseInt(text, f.unit)
		if err != nil {
			return err
		}
		v.SetInt(n)
	case reflect.Float64:
		x, err := parseFloat(text, f.unit)
		if err != nil {
			return err
		}
		v.SetFloat(x)
	default:
		return fmt.Errorf("can't be written as text")
	}
	return nil
}

// wants says in words what a scalar field takes.
func wants(t reflect.Type, f field) string {
	switch {
	case t == durationType && f.unit == "s":
		return `seconds, such as 10 or "10s"`
	case t == durationType:
		return `milliseconds, such as 2000, or a duration such as "2s"`
	case t == idRangeType:
		return "a route id or a range such as 9000-9999"
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		if f.unit == "bytes" {
			return "a size such as 64KiB"
		}
		return "a whole number"
	case reflect.Float64:
		if f.unit == "per_second" {
			return `a number, or "50/s"`
		}
		return "a number"
	case reflect.Slice:
		return "a list"
	default:
		return "a mapping"
	}
}

func parseInt(text, unit string) (int64, error) {
	if unit == "bytes" {
		return parseSize(text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > math.MaxInt || n < math.MinInt {
		return 0, fmt.Errorf("want a whole number, have %q", clip(text))
	}
	return n, nil
}

var sizeUnits = []struct {
	suffix string
	factor int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}}

// parseSize reads 4096, 64KiB, 1MiB, 2GiB.
func parseSize(text string) (int64, error) {
	digits, factor := text, int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(text, u.suffix); ok {
			digits, factor = strings.TrimSpace(rest), u.factor
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > math.MaxInt/factor || n < math.MinInt/factor {
		return 0, fmt.Errorf("want a size such as 4096, 64KiB or 1MiB, have %q", clip(text))
	}
	return n * factor, nil
}

// formatSize writes a size the way a person would.
func formatSize(n int64) string {
	for i := 2; i >= 0; i-- {
		if u := sizeUnits[i]; n >= u.factor && n%u.factor == 0 {
			return strconv.FormatInt(n/u.factor, 10) + u.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

// parseDuration reads 2000 in the key's unit, or a duration with its own unit.
func parseDuration(text, unit string) (time.Duration, error) {
	per := time.Millisecond
	if unit == "s" {
		per = time.Second
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n > math.MaxInt64/int64(per) || n < math.MinInt64/int64(per) {
			return 0, fmt.Errorf("%s is longer than anybody waits", text)
		}
		return time.Duration(n) * per, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("want a duration such as 500ms, 2s or 1m30s, have %q", clip(text))
	}
	return d, nil
}

func parseFloat(text, unit string) (float64, error) {
	number := text
	if unit == "per_second" {
		number = strings.TrimSpace(strings.TrimSuffix(text, "/s"))
	}
	x, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		if unit == "per_second" {
			return 0, fmt.Errorf(`want a rate such as 50 or "50/s", have %q`, clip(text))
		}
		return 0, fmt.Errorf("want a number, have %q", clip(text))
	}
	return x, nil
}

func parseIDRange(text string) (IDRange, error) {
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	a, errA := strconv.ParseUint(strings.TrimSpace(first), 10, 32)
	b, errB := strconv.ParseUint(strings.TrimSpace(last), 10, 32)
	if errA != nil || errB != nil {
		return IDRange{}, fmt.Errorf("want a route id or a range such as 9000-9999, have %q", clip(text))
	}
	if a > b {
		return IDRange{}, fmt.Errorf("the range %d-%d ends before it begins", a, b)
	}
	return IDRange{shield.RouteID(a), shield.RouteID(b)}, nil
}

// String writes the range the way a file does.
func (r IDRange) String() string {
	if r.First == r.Last {
		return strconv.FormatUint(uint64(r.First), 10)
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// Clone copies c so deeply that the two share nothing that can be written to.
func (c *Config) Clone() *Config {
	out := deepCopy(reflect.ValueOf(*c)).Interface().(Config)
	out.origins, out.sections = maps.Clone(c.origins), maps.Clone(c.sections)
	return &out
}

// deepCopy copies exported fields, slices, maps and interfaces. Unexported
// fields are copied as they are; Clone sees to the two there are.
func deepCopy(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Struct:
		out := reflect.New(v.Type()).Elem()
		out.Set(v)
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(deepCopy(v.Field(i)))
			}
		}
		return out
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		out := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			out.Index(i).Set(deepCopy(v.Index(i)))
		}
		return out
	case reflect.Map:
		if v.IsNil() {
			return v
		}
		out := reflect.MakeMapWithSize(v.Type(), v.Len())
		for it := v.MapRange(); it.Next(); {
			out.SetMapIndex(it.Key(), deepCopy(it.Value()))
		}
		return out
	case reflect.Interface:
		if v.IsNil() {
			return v
		}
		out := reflect.New(v.Type()).Elem()
		out.Set(deepCopy(v.Elem()))
		return out
	default:
		return v
	}
}

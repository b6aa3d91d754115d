package value

import (
	"fmt"
	"math"
	"reflect"
	"sort"

	lua "github.com/yuin/gopher-lua"
	"shield/runtime/shield"
)

// FromGo makes a detached Lua value of a Go one: nil, booleans, numbers,
// strings, []byte, slices, maps with string or integer keys, shield.Handle,
// shield.ClientRef, lua values (copied), and pointers to any of these. A nil
// inside a slice or map becomes Null, at the top it is nil. Integers that a Lua
// number can't hold exactly are refused.
func FromGo(v any) (lua.LValue, error) {
	x, bad := fromGo(v, MaxDepth)
	if bad != nil {
		return nil, bad.error("value")
	}
	return x, nil
}

// PayloadOf makes a payload of Go values, for services written in Go.
func PayloadOf(args ...any) (Payload, error) {
	var p Payload
	p.reserve(len(args))
	for i, a := range args {
		v, bad := fromGo(a, MaxDepth)
		if bad != nil {
			return Payload{}, bad.within(lua.LNumber(i + 1)).error(string(Args))
		}
		p.Add(v)
	}
	return p, nil
}

func fromGo(v any, depth int) (lua.LValue, *refusal) {
	switch v := v.(type) {
	case nil:
		return lua.LNil, nil
	case bool:
		return lua.LBool(v), nil
	case string:
		return lua.LString(v), nil
	case []byte:
		return lua.LString(v), nil
	case float64:
		return lua.LNumber(v), nil
	case int:
		return fromInt(int64(v))
	case int64:
		return fromInt(v)
	case uint64:
		return fromUint(v)
	case shield.Handle:
		return NewHandle(v), nil
	case shield.ClientRef:
		return NewClientRef(v), nil
	case lua.LValue:
		var w walker
		w.begin(0, math.MaxInt)
		c, bad := w.value(v)
		w.release()
		return c, bad
	}
	return fromReflect(reflect.ValueOf(v), depth)
}

func fromInt(i int64) (lua.LValue, *refusal) {
	f := float64(i)
	if f >= 1<<63 || int64(f) != i {
		return nil, inexact(i)
	}
	return integer(f), nil
}

func fromUint(u uint64) (lua.LValue, *refusal) {
	f := float64(u)
	if f >= 1<<64 || uint64(f) != u {
		return nil, inexact(u)
	}
	return lua.LNumber(f), nil
}

func inexact(n any) *refusal {
	return &refusal{code: shield.EncodeFailed, what: fmt.Sprintf("integer %d", n),
		why: "a Lua number is exact to 2^53 only; pass it as a string"}
}

func fromReflect(v reflect.Value, depth int) (lua.LValue, *refusal) {
	switch v.Kind() {
	case reflect.Bool:
		return lua.LBool(v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return fromInt(v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return fromUint(v.Uint())
	case reflect.Float32, reflect.Float64:
		return lua.LNumber(v.Float()), nil
	case reflect.String:
		return lua.LString(v.String()), nil
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return lua.LNil, nil
		}
		if depth == 0 {
			return nil, unfit("value nested deeper than 64 levels")
		}
		return fromGo(v.Elem().Interface(), depth-1)
	case reflect.Slice, reflect.Array, reflect.Map:
		if depth == 0 {
			return nil, unfit("value nested deeper than 64 levels")
		}
		if v.Kind() == reflect.Map {
			return fromMap(v, depth)
		}
		return fromSlice(v, depth)
	}
	return nil, unfit("Go " + v.Type().String())
}

func fromSlice(v reflect.Value, depth int) (lua.LValue, *refusal) {
	t := newTable(v.Len(), 0)
	MarkArray(t)
	for i := range v.Len() {
		e, bad := fromGo(v.Index(i).Interface(), depth-1)
		if bad != nil {
			return nil, bad.within(lua.LNumber(i + 1))
		}
		t.RawSetInt(i+1, orNull(e))
	}
	return t, nil
}

func fromMap(v reflect.Value, depth int) (lua.LValue, *refusal) {
	t := newTable(0, v.Len())
	d := decoder{slots: MaxSize}
	for _, key := range sortedKeys(v) {
		k, bad := fromGo(key.Interface(), 0)
		if bad != nil {
			return nil, bad
		}
		e, bad := fromGo(v.MapIndex(key).Interface(), depth-1)
		if bad != nil {
			return nil, bad.within(k)
		}
		switch k := k.(type) {
		case lua.LString:
			t.RawSetString(string(k), orNull(e))
		case lua.LNumber:
			d.setNumber(t, k, orNull(e))
		default:
			d.bad = true
		}
		if d.gap {
			return nil, farKey(k)
		}
		if d.bad {
			return nil, badKey(k)
		}
	}
	return t, nil
}

// sortedKeys makes the order in which pairs walks the table the same each time.
func sortedKeys(v reflect.Value) []reflect.Value {
	keys := v.MapKeys()
	text := func(k reflect.Value) string { return fmt.Sprint(k.Interface()) }
	if v.Type().Key().Kind() == reflect.String {
		text = reflect.Value.String
	}
	sort.Slice(keys, func(i, j int) bool { return text(keys[i]) < text(keys[j]) })
	return keys
}

func orNull(v lua.LValue) lua.LValue {
	if v == lua.LNil {
		return Null
	}
	return v
}

// ToGo turns a detached value into plain Go: nil, bool, float64 or int64 (for
// whole numbers up to 2^53), string, []any, map[string]any, shield.Handle,
// shield.ClientRef. Null becomes nil. A table with both string and integer keys
// becomes a map with the integers in decimal.
func ToGo(v lua.LValue) any {
	switch v := v.(type) {
	case lua.LBool:
		return bool(v)
	case lua.LNumber:
		if i, ok := asInteger(v); ok && i <= 1<<53 && i >= -1<<53 {
			return i
		}
		return float64(v)
	case lua.LString:
		return string(v)
	case *lua.LUserData:
		if v != Null {
			return v.Value
		}
	case *lua.LTable:
		return tableToGo(v)
	}
	return nil
}

func tableToGo(t *lua.LTable) any {
	if n, ok := listLen(t); ok {
		list := make([]any, n)
		for i := range list {
			list[i] = ToGo(element(t, i+1))
		}
		return list
	}
	m := make(map[string]any, hashLen(t))
	for i, e := range arrayOf(t) {
		if e != lua.LNil {
			m[keyText(lua.LNumber(i+1))] = ToGo(e)
		}
	}
	for k, e := range hashPairs(t) {
		m[keyText(k)] = ToGo(e)
	}
	return m
}

// Go turns all values into plain Go, as ToGo does.
func (p *Payload) Go() []any {
	list := make([]any, p.n)
	for i := range list {
		list[i] = ToGo(p.At(i))
	}
	return list
}

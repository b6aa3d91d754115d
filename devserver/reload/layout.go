package reload

import (
	"fmt"
	"reflect"
	"sync"
	"unsafe"

	lua "github.com/yuin/gopher-lua"
)

// gopher-lua v1.1.2 exports neither the frames of a suspended stack nor a way
// to read a table without boxing every index. This file is the only one of the
// package that looks inside; layoutError refuses a version that is laid out
// differently, before anything is touched.

// tableMirror is lua.LTable.
type tableMirror struct {
	Metatable lua.LValue
	array     []lua.LValue
	dict      map[lua.LValue]lua.LValue
	strdict   map[string]lua.LValue
	keys      []lua.LValue
	k2i       map[lua.LValue]int
}

func mirror(t *lua.LTable) *tableMirror { return (*tableMirror)(unsafe.Pointer(t)) }

// frameMirror is the beginning of lua.callFrame.
type frameMirror struct {
	Idx    int
	Fn     *lua.LFunction
	Parent *frameMirror
}

// registryMirror is the beginning of lua.registry.
type registryMirror struct {
	array []lua.LValue
	top   int
}

var (
	offFrame    uintptr
	offRegistry uintptr
)

var layoutError = sync.OnceValue(func() error {
	state := reflect.TypeFor[lua.LState]()
	frame, ok1 := state.FieldByName("currentFrame")
	reg, ok2 := state.FieldByName("reg")
	if !ok1 || !ok2 {
		return wrongLayout("LState")
	}
	offFrame, offRegistry = frame.Offset, reg.Offset
	for _, p := range []struct {
		real, mirror reflect.Type
		whole        bool
	}{
		{reflect.TypeFor[lua.LTable](), reflect.TypeFor[tableMirror](), true},
		{frame.Type.Elem(), reflect.TypeFor[frameMirror](), false},
		{reg.Type.Elem(), reflect.TypeFor[registryMirror](), false},
	} {
		if p.whole && p.real.Size() != p.mirror.Size() {
			return wrongLayout(p.real.String())
		}
		for i := range p.mirror.NumField() {
			m := p.mirror.Field(i)
			r, ok := p.real.FieldByName(m.Name)
			if !ok || r.Offset != m.Offset || r.Type.Kind() != m.Type.Kind() || r.Type.Size() != m.Type.Size() {
				return wrongLayout(p.real.String() + "." + m.Name)
			}
		}
	}
	return nil
})

func wrongLayout(what string) error {
	return fmt.Errorf("hot reload: this gopher-lua lays out %s differently from v1.1.2; go back to that version in go.mod", what)
}

// eachFrame visits the frames of a suspended stack, the innermost first.
func eachFrame(L *lua.LState, visit func(*frameMirror)) {
	f := *(**frameMirror)(unsafe.Add(unsafe.Pointer(L), offFrame))
	for ; f != nil; f = f.Parent {
		visit(f)
	}
}

// registers are the values on a suspended stack, dead temporaries included.
func registers(L *lua.LState) []lua.LValue {
	r := *(**registryMirror)(unsafe.Add(unsafe.Pointer(L), offRegistry))
	return r.array[:r.top]
}

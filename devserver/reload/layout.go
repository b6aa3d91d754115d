package reload

import (
	"errors"
	"reflect"
	"sync"
	"unsafe"

	lua "github.com/yuin/gopher-lua"
)

// gopher-lua v1.1.2 exports no way to copy a table's content without boxing every
// index, nor to put it back without moving its keys. This file is the only one
// of the package that looks inside; layoutError refuses a version that is laid
// out differently, before anything is touched.

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

var layoutError = sync.OnceValue(func() error {
	real, mirror := reflect.TypeFor[lua.LTable](), reflect.TypeFor[tableMirror]()
	same := real.Size() == mirror.Size() && real.NumField() == mirror.NumField()
	for i := 0; same && i < real.NumField(); i++ {
		r, m := real.Field(i), mirror.Field(i)
		same = r.Name == m.Name && r.Offset == m.Offset && r.Type == m.Type
	}
	if !same {
		return errors.New("hot reload: this gopher-lua lays out its tables differently from v1.1.2; go back to that version in go.mod")
	}
	return nil
})

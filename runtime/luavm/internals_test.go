package luavm

import (
	"reflect"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
)

// Another gopher-lua is noticed before a VM runs on it.
func TestLayoutCheck(t *testing.T) {
	if err := checkLayout(); err != nil {
		t.Fatal(err)
	}
	//lint:ignore U1000 only its layout is looked at
	type a struct {
		x int
		y string
	}
	for name, other := range map[string]reflect.Type{
		"renamed": reflect.TypeFor[struct {
			x int
			z string
		}](),
		"moved": reflect.TypeFor[struct {
			y string
			x int
		}](),
		"grown": reflect.TypeFor[struct {
			x int
			y string
			z int
		}](),
	} {
		if err := sameLayout(reflect.TypeFor[a](), other); err == nil || !strings.Contains(err.Error(), "v1.1.2") {
			t.Errorf("%s: %v, want an error that names the version", name, err)
		}
	}
}

// Stacks of a gopher-lua that is not ours run through the hooks unharmed.
func TestForeignStacksPass(t *testing.T) {
	L := lua.NewState()
	defer L.Close()
	if err := L.DoString(`local s = "" for i = 1, 100 do s = s .. i end local function f(n) if n == 0 then return 7 end return f(n - 1) end r = f(1000) + #s`); err != nil {
		t.Fatal(err)
	}
	if got := L.GetGlobal("r").String(); got != "199" {
		t.Errorf("r = %s, want 199", got)
	}
}

func TestWorldsShareNothing(t *testing.T) {
	one := newBox(t, newWorld(t, Config{Files: files{}, Shield: Lib{"only": lua.LString("here")}}), VMConfig{})
	two := newBox(t, newWorld(t, Config{Files: files{}}), VMConfig{})
	one.do(`function string.x() end`)
	if got := two.do(`return shield.only, string.x`); got != "nil nil" {
		t.Errorf("another world sees %q", got)
	}
	if got := one.do(`return shield.only`); got != "here" {
		t.Errorf("shield.only = %q", got)
	}
}

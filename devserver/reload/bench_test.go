package reload

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"shield/runtime/luavm"
)

// BenchmarkSwap is what the service waits for: a scratch load and the swap of
// 500 lines, analysis and plan included the first time.
func BenchmarkSwap(b *testing.B) {
	bed := newBed(b, script(source(500, 1)))
	for range 50 {
		bed.callOn(bed.nodes[0], "add", "1")
	}
	var took time.Duration
	i := 1
	for b.Loop() {
		i++
		for _, r := range bed.reloads(script(source(500, i))) {
			took += r.Took
		}
	}
	b.ReportMetric(float64(took.Microseconds())/float64(b.N)/nodes, "us/swap")
}

// BenchmarkSwapOnly leaves the scratch load out.
func BenchmarkSwapOnly(b *testing.B) {
	world, err := luavm.NewWorld(luavm.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := world.Close(context.Background()); err != nil {
			b.Error(err)
		}
	}()
	rl := New(Config{Nodes: func() []Node { return nil }}, nil)
	load := func(ver int) *Image {
		files := memory{"svc.lua": strings.ReplaceAll(source(500, ver), "shield.timer", "print")}
		vm := world.NewVM(luavm.VMConfig{Files: files})
		h := world.Take()
		defer h.Give()
		if _, err := vm.Load(h, "svc.lua", nil); err != nil {
			b.Fatal(err)
		}
		ms, err := rl.modules(vm.Modules())
		if err != nil {
			b.Fatal(err)
		}
		return &Image{Globals: vm.Globals(), Modules: ms, Shared: world.Shared, Plan: rl.plan}
	}
	st, err := NewState(load(1))
	if err != nil {
		b.Fatal(err)
	}
	i := 1
	for b.Loop() {
		b.StopTimer()
		i++
		fresh := load(i)
		rl.plan(st.Modules()[0].Shape, fresh.Modules[0].Shape)
		b.StartTimer()
		if _, err := st.Swap(fresh); err != nil {
			b.Fatal(err)
		}
	}
}

type memory map[string]string

func (m memory) ReadFile(p string) ([]byte, error) {
	if s, ok := m[p]; ok {
		return []byte(s), nil
	}
	return nil, os.ErrNotExist
}

// BenchmarkAnalyse reads 500 lines and matches them with the version before.
func BenchmarkAnalyse(b *testing.B) {
	old, err := Analyse("svc.lua", source(500, 1))
	if err != nil {
		b.Fatal(err)
	}
	src := source(500, 2)
	for b.Loop() {
		s, err := Analyse("svc.lua", src)
		if err != nil {
			b.Fatal(err)
		}
		PlanFor(old, s)
	}
}

package testrun

import (
	lua "github.com/yuin/gopher-lua"

	"shield/runtime/shield"
)

// What a test does to the network: net.cut, heal, delay, loss.

// pair reads two nodes, and "one-way" after them.
func (r *runner) pair(L *lua.LState) (a, b shield.NodeID) {
	ids := [2]shield.NodeID{}
	for i := range ids {
		m, err := r.world.member(shield.NodeID(L.CheckString(i + 1)))
		if err != nil {
			raise(L, err)
		}
		ids[i] = m.id
	}
	if ids[0] == ids[1] {
		L.ArgError(2, "want another node than the first")
	}
	return ids[0], ids[1]
}

// oneWay reads whether only the first direction is meant.
func oneWay(L *lua.LState, n int) bool {
	switch s := L.OptString(n, ""); s {
	case "":
		return false
	case "one-way":
		return true
	default:
		L.ArgError(n, `want "one-way" or nothing`)
		return false
	}
}

func (r *runner) netCut(L *lua.LState) int {
	a, b := r.pair(L)
	both := !oneWay(L, 3)
	r.wait(L, "net.cut", func() {
		r.world.net.Cut(a, b)
		if both {
			r.world.net.Cut(b, a)
		}
	})
	return 0
}

func (r *runner) netHeal(L *lua.LState) int {
	if L.GetTop() == 0 {
		if _, err := r.world.find(""); err != nil {
			raise(L, err)
		}
		r.wait(L, "net.heal", r.world.net.HealAll)
		return 0
	}
	a, b := r.pair(L)
	both := !oneWay(L, 3)
	r.wait(L, "net.heal", func() {
		r.world.net.Heal(a, b)
		if both {
			r.world.net.Heal(b, a)
		}
	})
	return 0
}

// between reads the nodes before the argument that counts: two, or none for all.
func (r *runner) between(L *lua.LState, name string, set func(a, b shield.NodeID, at int)) int {
	if L.GetTop() <= 1 {
		if _, err := r.world.find(""); err != nil {
			raise(L, err)
		}
		r.wait(L, name, func() { set("", "", 1) })
		return 0
	}
	a, b := r.pair(L)
	both := !oneWay(L, 4)
	r.wait(L, name, func() {
		set(a, b, 3)
		if both {
			set(b, a, 3)
		}
	})
	return 0
}

func (r *runner) netDelay(L *lua.LState) int {
	d := duration(L, min(3, max(1, L.GetTop())))
	return r.between(L, "net.delay", func(a, b shield.NodeID, _ int) { r.world.net.Delay(a, b, d) })
}

func (r *runner) netLoss(L *lua.LState) int {
	n := min(3, max(1, L.GetTop()))
	rate := float64(L.CheckNumber(n))
	if !(rate >= 0 && rate < 1) {
		L.ArgError(n, "want a rate from 0 to below 1")
	}
	return r.between(L, "net.loss", func(a, b shield.NodeID, _ int) { r.world.net.Loss(a, b, rate) })
}

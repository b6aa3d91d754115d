package testrun

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	lua "github.com/yuin/gopher-lua"

	"shield/runtime/luavm"
	"shield/runtime/service"
	"shield/runtime/shield"
	"shield/runtime/value"
)

// libs are the tables that a test file finds as globals.
func (r *runner) libs() map[string]map[string]lua.LGFunction {
	return map[string]map[string]lua.LGFunction{
		"cluster": {
			"start": r.clusterStart, "stop": r.nodeAction("cluster.stop", (*member).stop),
			"kill": r.nodeAction("cluster.kill", (*member).kill), "restart": r.nodeAction("cluster.restart", (*member).restart),
			"drain": r.nodeAction("cluster.drain", (*member).drain),
			"call":  r.clusterCall, "call_from": r.clusterCallFrom, "send": r.clusterSend, "eval": r.clusterEval,
			"nodes":    r.rows("cluster.nodes", true, func(m *member) any { return m.node.Nodes() }),
			"services": r.rows("cluster.services", false, func(m *member) any { return m.node.Services() }),
			"sessions": r.rows("cluster.sessions", false, func(m *member) any { return m.node.Sessions() }),
		},
		"client": {"connect": r.clientConnect},
		"net":    {"cut": r.netCut, "heal": r.netHeal, "delay": r.netDelay, "loss": r.netLoss},
		"clock":  {"advance": r.sleep, "now": r.clockNow, "shift": r.clockShift},
		"log":    {"expect": r.logExpect, "expect_none": r.logNone, "lines": r.logLines},
	}
}

// maxNodes bounds cluster.start; each node costs memory and time.
const maxNodes = 32

func (r *runner) clusterStart(L *lua.LState) int {
	n := L.OptInt(1, 0)
	if n < 0 || n > maxNodes {
		L.ArgError(1, fmt.Sprintf("want 1 to %d nodes", maxNodes))
	}
	var err error
	r.wait(L, "cluster.start", func() {
		r.hangUpAll() // they belong to the cluster that ends
		if err = r.world.start(n); err == nil {
			r.shiftAll()
		}
	})
	if err != nil {
		raise(L, err)
	}
	return 0
}

// nodeAction makes a function that does something to one node.
func (r *runner) nodeAction(name string, do func(*member) error) lua.LGFunction {
	return func(L *lua.LState) int {
		m, err := r.world.member(shield.NodeID(L.CheckString(1)))
		if err != nil {
			raise(L, err)
		}
		r.wait(L, name, func() {
			err = do(m)
			r.shiftAll()
		})
		if err != nil {
			raise(L, err)
		}
		return 0
	}
}

// from finds the node that a call is made on: the one its target names, if it
// runs, else the first that does.
func (r *runner) from(t service.Target) (*member, error) {
	id := t.Handle.Node
	if node, _, ok := shield.SplitTarget(t.Name); ok {
		id = node
	}
	if m, err := r.world.find(id); err == nil && id != "" {
		return m, nil
	}
	first, err := r.world.find("")
	if err != nil || t.Name == "" || id != "" {
		return first, err
	}
	if _, here := first.node.Runtime().Lookup(shield.Name(t.Name)); here {
		return first, nil
	}
	var found []*member
	for _, m := range r.world.members {
		if m.alive {
			if _, there := m.node.Runtime().Lookup(shield.Name(t.Name)); there {
				found = append(found, m)
			}
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	return first, nil
}

func checkTarget(L *lua.LState, n int) service.Target {
	if h, ok := value.AsHandle(L.Get(n)); ok {
		return service.Target{Handle: h}
	}
	return service.Target{Name: L.CheckString(n)}
}

func (r *runner) clusterCall(L *lua.LState) int {
	to := checkTarget(L, 1)
	m, err := r.from(to)
	if err != nil {
		raise(L, err)
	}
	return r.callOn(L, m, to, 2)
}

func (r *runner) clusterCallFrom(L *lua.LState) int {
	m, err := r.world.find(shield.NodeID(L.CheckString(1)))
	if err != nil {
		raise(L, err)
	}
	return r.callOn(L, m, checkTarget(L, 2), 3)
}

// callOn calls as a service of m would; the method stands at index at.
func (r *runner) callOn(L *lua.LState, m *member, to service.Target, at int) int {
	req := service.CallRequest{Target: to, Method: L.CheckString(at), From: "test"}
	if err := value.CopyStack(&req.Args, value.Args, 1<<20, L, at+1); err != nil {
		raise(L, err)
	}
	var out value.Payload
	var err error
	r.wait(L, "cluster.call", func() { out, _, err = m.node.Runtime().Call(context.Background(), req) })
	return r.answer(L, &out, err)
}

// answer returns true and the values, or false and the Error.
func (r *runner) answer(L *lua.LState, out *value.Payload, err error) int {
	if err != nil {
		L.Push(lua.LFalse)
		L.Push(r.api.Error(shield.AsError(err, shield.HandlerError)))
		return 2
	}
	out.Intern(func(u *lua.LUserData) *lua.LUserData {
		return r.vm.Intern(u.Value, func() *lua.LUserData {
			n := &lua.LUserData{Value: u.Value, Metatable: r.api.Handle}
			if _, ok := u.Value.(shield.ClientRef); ok {
				n.Metatable = r.api.ClientRef
			}
			return n
		})
	})
	L.Push(lua.LTrue)
	return 1 + out.Push(L)
}

func (r *runner) clusterSend(L *lua.LState) int {
	to := checkTarget(L, 1)
	m, err := r.from(to)
	if err != nil {
		raise(L, err)
	}
	method := L.CheckString(2)
	var args value.Payload
	if err := value.CopyStack(&args, value.Args, 1<<20, L, 3); err != nil {
		raise(L, err)
	}
	h := to.Handle
	if to.Name != "" {
		name := shield.Name(to.Name)
		if _, short, ok := shield.SplitTarget(to.Name); ok {
			name = short
		}
		var known bool
		if h, known = m.node.Runtime().Lookup(name); !known {
			return r.answer(L, nil, shield.Errorf(shield.ServiceNotFound, "%s has no service %q", m.id, name))
		}
	}
	env := &shield.Envelope{Source: shield.Handle{Node: m.id, Epoch: m.node.Epoch()}, Target: h, Method: method, Args: value.Append(nil, &args)}
	r.wait(L, "cluster.send", func() { m.node.Runtime().Deliver(env, nil) })
	return r.answer(L, new(value.Payload), nil)
}

func (r *runner) clusterEval(L *lua.LState) int {
	to, source := checkTarget(L, 1), L.CheckString(2)
	m, err := r.from(to)
	if err != nil {
		raise(L, err)
	}
	var out value.Payload
	r.wait(L, "cluster.eval", func() {
		var res *service.Evaluated
		res, _, err = m.node.Runtime().Eval(context.Background(), service.EvalRequest{Target: to, Source: source})
		out = res.Values
	})
	return r.answer(L, &out, err)
}

// rows gives rows as `shield ... --json` prints them: of one node, or, unless
// it is a view of one node anyway, of all.
func (r *runner) rows(name string, view bool, of func(*member) any) lua.LGFunction {
	return func(L *lua.LState) int {
		id := shield.NodeID(L.OptString(1, ""))
		m, err := r.world.find(id)
		if err != nil {
			raise(L, err)
		}
		from := []*member{m}
		if id == "" && !view {
			from = r.world.members
		}
		list := lua.LValue(newTable(0))
		r.wait(L, name, func() { list, err = collect(from, of) })
		if err != nil {
			raise(L, err)
		}
		L.Push(list)
		return 1
	}
}

func collect(from []*member, of func(*member) any) (lua.LValue, error) {
	all := []json.RawMessage{} // none are an empty table, not nil
	for _, m := range from {
		if !m.alive {
			continue
		}
		b, err := json.Marshal(of(m))
		if err != nil {
			return lua.LNil, err
		}
		var some []json.RawMessage
		if err := json.Unmarshal(b, &some); err != nil {
			return lua.LNil, err
		}
		all = append(all, some...)
	}
	b, err := json.Marshal(all)
	if err != nil {
		return lua.LNil, err
	}
	return value.ParseJSON(b)
}

func (r *runner) sleep(L *lua.LState) int {
	d := duration(L, 1)
	r.wait(L, "sleep", func() { r.world.pass(d) })
	return 0
}

func (r *runner) clockNow(L *lua.LState) int {
	L.Push(lua.LNumber(r.now().UnixMilli()))
	return 1
}

// clockShift moves the business clock of all nodes and of the test; timers stay.
func (r *runner) clockShift(L *lua.LState) int {
	d := duration(L, 1)
	r.wait(L, "clock.shift", func() {
		r.shift += d
		r.shiftAll()
	})
	return 0
}

func (r *runner) shiftAll() {
	for _, m := range r.world.members {
		if m.alive {
			m.node.SetClockShift(r.shift)
		}
	}
}

// eventually is eventually(fn[, timeout][, every]): fn is called until it
// neither throws nor returns false.
func (r *runner) eventually(L *lua.LState) int {
	fn := L.CheckFunction(1)
	limit, every := expectLimit, 10*time.Millisecond
	if L.Get(2) != lua.LNil {
		limit = duration(L, 2)
	}
	if L.Get(3) != lua.LNil {
		every = max(duration(L, 3), time.Millisecond)
	}
	top := L.GetTop()
	for end := time.Now().Add(limit); ; {
		L.SetTop(top)
		L.Push(fn)
		err := luavm.PCall(L, 0, lua.MultRet)
		if err == nil && L.Get(top+1) != lua.LFalse {
			return L.GetTop() - top
		}
		if time.Now().After(end) {
			throw(L, r.never(err, limit))
		}
		r.wait(L, "eventually", func() { time.Sleep(every) })
	}
}

func (r *runner) never(err *luavm.RunError, limit time.Duration) *Failure {
	f := &Failure{Message: fmt.Sprintf("still not so after %v: the function returned false", limit)}
	if err == nil {
		return f
	}
	why := errorText(err.Value)
	if t, ok := err.Value.(*lua.LTable); ok {
		if said := asserted(t); said != nil {
			*f = *said
			why = fmt.Sprintf("%s (%s:%d)", said.Message, said.File, said.Line)
		}
	}
	f.Message = fmt.Sprintf("still not so after %v: %s", limit, why)
	f.File, f.Line = "", 0
	return f
}

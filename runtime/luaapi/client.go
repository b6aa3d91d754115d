package luaapi

import (
	"strings"
	"sync/atomic"

	"shield/runtime/luavm"
	"shield/runtime/shield"
	"shield/runtime/value"

	lua "github.com/yuin/gopher-lua"
)

func clientBind(L *lua.LState) int {
	ref, err := clientOrRef(L.Get(1))
	if err != nil {
		return none(L, err)
	}
	to, err := target(L.Get(2))
	if err != nil {
		return none(L, err)
	}
	var id string
	switch p := L.Get(3).(type) {
	case lua.LString:
		id = string(p)
	case lua.LNumber:
		id = p.String()
	}
	if id == "" {
		L.ArgError(3, "player id expected, a string that is not empty")
	}
	s := of(L)
	bound, err := s.Bind(L, ref, to, id)
	if err != nil {
		return none(L, err)
	}
	L.Push(s.Ref(bound))
	return 1
}

func clientClose(L *lua.LState) int {
	ref, err := clientOrRef(L.Get(1))
	if err != nil {
		return refuse(L, err)
	}
	return done(L, of(L).CloseClient(ref, L.OptString(2, "")))
}

// pushes is shield.client_rpc: one function per s2c route. The tree of names is
// built once for each table of routes.
type pushes struct{ tree atomic.Pointer[pushTree] }

type pushTree struct {
	routes *shield.RPCTable
	root   *pushNode
}

// pushNode is one step of a dotted name. Its Lua value is a function where the
// name ends in a route, a table that leads on where it does not, and a table
// that can be called where it is both.
type pushNode struct {
	path  string
	route *shield.RPCRoute
	next  map[string]*pushNode
	value lua.LValue
}

func (p *pushes) index(L *lua.LState, key string) lua.LValue {
	routes := of(L).Runtime().Routes()
	t := p.tree.Load()
	if t == nil || t.routes != routes {
		t = &pushTree{routes: routes, root: buildPushes(routes)}
		p.tree.Store(t)
	}
	return t.root.child(L, key, routes)
}

func (n *pushNode) child(L *lua.LState, key string, routes *shield.RPCTable) lua.LValue {
	if c := n.next[key]; c != nil {
		return c.value
	}
	name := strings.TrimPrefix(n.path+"."+key, ".")
	throw(L, noRoute(name, routes))
	return lua.LNil
}

// noRoute says why there is no helper of that name.
func noRoute(name string, routes *shield.RPCTable) *shield.Error {
	if r := routes.ByName(name); r != nil {
		return shield.Errorf(shield.RPCDirectionRejected, "shield.client_rpc.%s: the route goes from client to server; a service pushes on routes with dir: s2c", name)
	}
	var all []string
	for _, r := range routes.All() {
		if r.Dir == shield.ServerToClient {
			all = append(all, r.Name)
		}
	}
	if near := shield.Nearest(name, all); near != "" {
		return shield.Errorf(shield.RPCRouteNotFound, "shield.client_rpc.%s: rpc.yaml has no such s2c route (did you mean %s?)", name, near)
	}
	return shield.Errorf(shield.RPCRouteNotFound, "shield.client_rpc.%s: rpc.yaml has no such s2c route", name)
}

func buildPushes(routes *shield.RPCTable) *pushNode {
	root := &pushNode{next: map[string]*pushNode{}}
	for _, r := range routes.All() {
		if r.Dir != shield.ServerToClient {
			continue
		}
		at := root
		for _, part := range strings.Split(r.Name, ".") {
			c := at.next[part]
			if c == nil {
				c = &pushNode{path: strings.TrimPrefix(at.path+"."+part, "."), next: map[string]*pushNode{}}
				at.next[part] = c
			}
			at = c
		}
		at.route = r
	}
	root.finish(routes)
	return root
}

func (n *pushNode) finish(routes *shield.RPCTable) {
	for _, c := range n.next {
		c.finish(routes)
	}
	if len(n.next) == 0 {
		if n.route != nil {
			n.value = goFunc(n.push(1))
		}
		return
	}
	meta := map[string]lua.LGFunction{"__index": func(L *lua.LState) int {
		L.Push(n.child(L, L.CheckString(2), routes))
		return 1
	}}
	if n.route != nil {
		meta["__call"] = n.push(2)
	}
	n.value = &lua.LUserData{Metatable: metatable("shield.client_rpc", nil, meta), Value: n}
}

// push makes the helper of a route, whose arguments begin at index at.
func (n *pushNode) push(at int) lua.LGFunction {
	r := n.route
	return func(L *lua.LState) int {
		if luavm.Inert(L) {
			return 0
		}
		ref, err := clientOrRef(L.Get(at))
		if err != nil {
			return refuse(L, err)
		}
		codec := r.Codec
		if _, provider, ok := strings.Cut(ref.Profile, "/"); ok && provider != "" {
			codec = provider
		}
		c := value.CodecByName(codec)
		if c == nil {
			return refuse(L, shield.Errorf(shield.EncodeFailed, "push %s: unknown codec %q", r.Name, codec))
		}
		body, eerr := value.AppendBody(c, nil, L.Get(at+1))
		if eerr != nil {
			return refuse(L, shield.AsError(eerr, shield.EncodeFailed))
		}
		return done(L, of(L).Push(ref, r.ID, body))
	}
}

package luaapi

import (
	"shield/runtime/service"
	"shield/runtime/shield"
	"shield/runtime/value"

	lua "github.com/yuin/gopher-lua"
)

// remote is the way to other nodes, or the error that there is none.
func remote(L *lua.LState) (service.Remote, *shield.Error) {
	if r := of(L).Runtime().Config().Remote; r != nil {
		return r, nil
	}
	return nil, shield.Errorf(shield.ModuleUnavailable, "this node is in no cluster: set cluster.node_id in shield.yaml")
}

func clusterQuery(L *lua.LState) int {
	node, name := shield.NodeID(L.CheckString(1)), shield.Name(L.CheckString(2))
	r, err := remote(L)
	if err != nil {
		return none(L, err)
	}
	s := of(L)
	var h shield.Handle
	if node == s.Handle().Node {
		h, err = s.Query(name)
	} else {
		var rerr error
		h, rerr = r.Resolve(node, name)
		err = shield.AsError(rerr, shield.ServiceNotFound)
	}
	if err != nil {
		return none(L, err)
	}
	L.Push(s.Ref(h))
	return 1
}

func clusterNodeID(L *lua.LState) int {
	if _, err := remote(L); err != nil {
		return none(L, err)
	}
	L.Push(lua.LString(of(L).Handle().Node))
	return 1
}

func clusterNodeEpoch(L *lua.LState) int {
	if _, err := remote(L); err != nil {
		return none(L, err)
	}
	L.Push(lua.LString(of(L).Handle().Epoch.String()))
	return 1
}

func clusterNodes(L *lua.LState) int {
	r, err := remote(L)
	if err != nil {
		return none(L, err)
	}
	rows := r.Nodes()
	t := newTable(len(rows), 0)
	for i := range rows {
		t.Append(nodeRow(&rows[i]))
	}
	value.MarkArray(t)
	L.Push(t)
	return 1
}

func nodeRow(n *shield.NodeRow) *lua.LTable {
	t := newTable(0, 8)
	t.RawSetString("node", lua.LString(n.Node))
	t.RawSetString("state", lua.LString(n.State))
	t.RawSetString("intent", lua.LString(n.Intent))
	if n.Epoch != 0 {
		t.RawSetString("epoch", lua.LString(n.Epoch.String()))
	}
	t.RawSetString("address", lua.LString(n.Address))
	if n.LastHeartbeat != nil {
		t.RawSetString("last_heartbeat_ms", lua.LNumber(*n.LastHeartbeat))
	}
	if n.HeartbeatAge != nil {
		t.RawSetString("heartbeat_age_ms", lua.LNumber(*n.HeartbeatAge))
	}
	t.RawSetString("self", lua.LBool(n.Self))
	return t
}

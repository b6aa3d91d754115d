package shield

import "sort"

// RouteID is the number of an RPC route on the client wire. 0 to 15 are the
// gateway's own.
type RouteID uint32

// FirstRouteID is the lowest id an RPC route may have.
const FirstRouteID RouteID = 16

// Route ids that the gateway itself speaks.
const (
	RouteClose  RouteID = 1 // server to client: the body is the reason, then the socket closes
	RoutePing   RouteID = 2 // client to server; answered by RoutePong with the same body
	RoutePong   RouteID = 3
	RouteResume RouteID = 4 // reserved for resume_window
)

// Direction says who may speak on an RPC route.
type Direction string

const (
	ClientToServer Direction = "c2s"
	ServerToClient Direction = "s2c"
)

// RPCRoute is one line of rpc.yaml: what a client may say or hear.
type RPCRoute struct {
	ID      RouteID
	Name    string // dots nest: auth.login_ok
	Dir     Direction
	Auth    bool    // a bound session is required; c2s only
	Service Name    // which service's script must have Handler; c2s only
	Handler string  // method of the session's target; c2s only
	Codec   string  // json, raw, msgpack, protobuf; used where the listener names no provider
	MaxBody int     // bytes; 0 = only the frame limit
	Rate    float64 // frames a second and session; 0 = only the session's limit
	Burst   int
}

// RPCTable holds the routes of rpc.yaml. It is immutable: a reload makes a new
// one.
type RPCTable struct {
	byID   map[RouteID]*RPCRoute
	byName map[string]*RPCRoute
	sorted []*RPCRoute
}

// NewRPCTable copies routes into a table. Ids and names must be unique; the
// config package has checked that.
func NewRPCTable(routes []RPCRoute) *RPCTable {
	t := &RPCTable{byID: make(map[RouteID]*RPCRoute, len(routes)), byName: make(map[string]*RPCRoute, len(routes))}
	for i := range routes {
		r := routes[i]
		t.byID[r.ID], t.byName[r.Name] = &r, &r
		t.sorted = append(t.sorted, &r)
	}
	sort.Slice(t.sorted, func(i, j int) bool { return t.sorted[i].ID < t.sorted[j].ID })
	return t
}

// ByID finds a route by its number on the wire; nil when there is none. A nil
// table has no routes.
func (t *RPCTable) ByID(id RouteID) *RPCRoute {
	if t == nil {
		return nil
	}
	return t.byID[id]
}

// ByName finds a route by its name; nil when there is none.
func (t *RPCTable) ByName(name string) *RPCRoute {
	if t == nil {
		return nil
	}
	return t.byName[name]
}

// All lists the routes by id. The slice and the routes are not to be changed.
func (t *RPCTable) All() []*RPCRoute {
	if t == nil {
		return nil
	}
	return t.sorted
}

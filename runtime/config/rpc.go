package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"shield/runtime/shield"
)

// rpcFile is rpc.yaml as it is written.
type rpcFile struct {
	Routes []rpcRoute `key:"routes" doc:"what clients may say (c2s) and hear (s2c)"`
}

type rpcRoute struct {
	ID      int     `key:"id" is:"required 16..4294967295" doc:"its number on the wire; 0 to 15 are the gateway's own"`
	Name    string  `key:"name" is:"required name" doc:"its name; dots nest in shield.client_rpc"`
	Dir     string  `key:"dir" is:"required c2s|s2c" doc:"c2s: the client sends; s2c: services push"`
	Service string  `key:"service" is:"name" doc:"c2s: the service whose script has the handler"`
	Handler string  `key:"handler" is:"any" doc:"c2s: the method M.handler(ctx, client, request)"`
	Auth    bool    `key:"auth" default:"true" is:"any" doc:"c2s: only for sessions that are bound to a player"`
	Codec   string  `key:"codec" default:"json" is:"codec" doc:"of the body, where the gateway names no provider"`
	MaxBody int     `key:"max_body" unit:"bytes" is:"0..16MiB" doc:"c2s: longest body; 0 = only the frame limit"`
	Rate    float64 `key:"rate" unit:"per_second" is:"0.." doc:"c2s: frames a second and session; 0 = only the session's limit"`
	Burst   int     `key:"burst" is:"0.." doc:"c2s: frames at once above the rate; 0 = twice the rate"`

	Pos Pos `key:"-"`
}

// ParseRPC reads rpc.yaml for a reload and checks it against cfg. file is the
// name that problems carry. The error is Problems; one of them is an empty file,
// which is more likely half written than a wish to take every route away.
func ParseRPC(file string, src []byte, cfg *Config) ([]Route, error) {
	routes, problems := parseRPC(file, src, cfg)
	if routes == nil && problems == nil {
		problems = []Problem{{Pos: Pos{File: file}, Message: "there is nothing in it", Cure: "write routes: [] for none"}}
	}
	if errs, _ := split(problems); errs != nil {
		return nil, errs
	}
	return routes, nil
}

func parseRPC(file string, src []byte, cfg *Config) ([]Route, []Problem) {
	root, problems := parseYAML(file, src)
	if root == nil {
		return nil, problems
	}
	var f rpcFile
	d := newDecoder()
	d.section(reflect.ValueOf(&f).Elem(), root, "")
	v := &rpcValidator{validator: validator{c: cfg, bad: d.broken}, file: &f, given: d.origins}
	if cfg == nil {
		v.c = Default()
	}
	// Places come from this file, not from shield.yaml.
	c := *v.c
	c.origins, c.sections = d.origins, d.sections
	v.c = &c
	v.check(cfg)
	problems = append(append(problems, d.problems...), v.problems...)
	routes := make([]Route, len(f.Routes))
	for i, r := range f.Routes {
		routes[i] = Route{Pos: r.Pos, RPCRoute: shield.RPCRoute{
			ID: shield.RouteID(r.ID), Name: r.Name, Dir: shield.Direction(r.Dir), Service: shield.Name(r.Service), Handler: r.Handler,
			Codec: r.Codec, MaxBody: r.MaxBody, Rate: r.Rate, Burst: r.Burst,
			Auth: r.Auth && r.Dir == string(shield.ClientToServer),
		}}
	}
	return routes, problems
}

// rpcValidator checks routes one by one and against each other. That the
// handler exists is the node's to check: it needs the script.
type rpcValidator struct {
	validator
	file  *rpcFile
	given map[string]Origin // the keys that are written
}

func (v *rpcValidator) check(cfg *Config) {
	v.rules(reflect.ValueOf(v.file).Elem(), "")
	ids, names := map[int]int{}, map[string]int{}
	for i := range v.file.Routes {
		r := &v.file.Routes[i]
		path := fmt.Sprintf("routes[%d]", i)
		if first, dup := ids[r.ID]; dup && r.ID != 0 {
			v.problem(path+".id", "", "the id %d is already taken by %s in %s", r.ID, v.file.Routes[first].Name, v.file.Routes[first].Pos)
		} else {
			ids[r.ID] = i
		}
		if first, dup := names[r.Name]; dup && r.Name != "" {
			v.problem(path+".name", "", "the name %q is already taken in %s", r.Name, v.file.Routes[first].Pos)
		} else {
			names[r.Name] = i
		}
		if slices.Contains(strings.Split(r.Name, "."), "") && r.Name != "" {
			v.problem(path+".name", "", "%q has an empty part between dots", r.Name)
		}
		v.direction(r, path, cfg)
	}
	v.nesting(names)
}

var luaName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (v *rpcValidator) direction(r *rpcRoute, path string, cfg *Config) {
	switch shield.Direction(r.Dir) {
	case shield.ClientToServer:
		v.handler(r, path, cfg)
	case shield.ServerToClient:
		for _, key := range []string{"service", "handler", "auth", "max_body", "rate", "burst"} {
			if _, ok := v.given[path+"."+key]; ok {
				v.problem(path+"."+key, "leave it out", "means nothing on an s2c route")
			}
		}
	}
}

func (v *rpcValidator) handler(r *rpcRoute, path string, cfg *Config) {
	switch {
	case v.broken(path + ".handler"):
	case r.Handler == "":
		v.problem(path+".handler", "add handler: ...", "a c2s route needs the method that hears it")
	case strings.HasPrefix(r.Handler, "on_"):
		v.problem(path+".handler", "rename the method", "%q is a hook: names that begin with on_ are no methods", r.Handler)
	case !luaName.MatchString(r.Handler):
		v.problem(path+".handler", "", "%q is no name of a Lua function", clip(r.Handler))
	}
	switch {
	case v.broken(path + ".service"):
	case r.Service == "":
		v.problem(path+".service", "add service: ...", "a c2s route needs the service whose script has the handler")
	case cfg != nil && len(cfg.Services) > 0 && cfg.service(shield.Name(r.Service)) == nil:
		v.unknown(path+".service", "service", r.Service, v.names())
	}
}

// nesting refuses a name that is another name's first part: shield.client_rpc
// could not be both a function and a table there.
func (v *rpcValidator) nesting(names map[string]int) {
	for i := range v.file.Routes {
		r := &v.file.Routes[i]
		if r.Dir != string(shield.ServerToClient) {
			continue
		}
		for at := strings.IndexByte(r.Name, '.'); at >= 0; {
			if j, clash := names[r.Name[:at]]; clash && v.file.Routes[j].Dir == string(shield.ServerToClient) {
				v.problem(fmt.Sprintf("routes[%d].name", i), "", "%q lies under %q (%s), which is a route itself", r.Name, r.Name[:at], v.file.Routes[j].Pos)
			}
			next := strings.IndexByte(r.Name[at+1:], '.')
			if next < 0 {
				break
			}
			at += 1 + next
		}
	}
}

// Table makes the immutable table of c.RPC.
func (c *Config) Table() *shield.RPCTable {
	routes := make([]shield.RPCRoute, len(c.RPC))
	for i, r := range c.RPC {
		routes[i] = r.RPCRoute
	}
	return shield.NewRPCTable(routes)
}

// RouteAt says where the route of that name is written.
func (c *Config) RouteAt(name string) Pos {
	for _, r := range c.RPC {
		if r.Name == name {
			return r.Pos
		}
	}
	return Pos{}
}

// Missing says that script, which has these methods, lacks the handler of a
// route from clients.
func (r *Route) Missing(script string, methods []string) (Problem, bool) {
	if r.Dir != shield.ClientToServer || slices.Contains(methods, r.Handler) {
		return Problem{}, false
	}
	p := Problem{
		Pos: r.Pos, Path: "routes[" + r.Name + "].handler",
		Message: fmt.Sprintf("%s has no method %q", script, r.Handler),
		Cure:    fmt.Sprintf("add `function M.%s(ctx, client, request)`", r.Handler),
	}
	if near := shield.Nearest(r.Handler, methods); near != "" {
		p.Cure = fmt.Sprintf("did you mean %q?", near)
	}
	return p, true
}

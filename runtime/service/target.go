package service

import (
	"strings"

	"shield/runtime/shield"
)

// Target is what a message goes to: a handle, or else a name ("room",
// "node-2:room").
type Target struct {
	Handle shield.Handle
	Name   string
}

// String is the target as its user wrote it.
func (t Target) String() string {
	if t.Name != "" {
		return t.Name
	}
	return t.Handle.String()
}

// Leaves reports whether what is sent to t leaves the node of s: then its values
// need not be copied, only encoded. A local name holds no colon.
func (s *Service) Leaves(t Target) bool {
	if t.Name == "" {
		return t.Handle.Node != s.rt.cfg.Node
	}
	node, _, qualified := shield.SplitTarget(t.Name)
	return qualified && node != s.rt.cfg.Node
}

// resolve finds out where t is: local is set for a service of this node, else
// far for one of another.
func (r *Runtime) resolve(t Target) (local *Service, far shield.Handle, err *shield.Error) {
	if t.Name == "" {
		return r.resolveHandle(t.Handle)
	}
	if s := r.reg.lookup(shield.Name(t.Name)); s != nil {
		return s, far, nil
	}
	node, name, qualified := shield.SplitTarget(t.Name)
	if err := shield.CheckName(string(name)); err != nil {
		return nil, far, shield.Errorf(shield.InvalidTarget, "target %q: want a service name, a handle, or \"node:name\"", t.Name)
	}
	if !qualified {
		return nil, far, r.notFound(name)
	}
	if err := shield.CheckName(string(node)); err != nil {
		return nil, far, shield.Errorf(shield.InvalidTarget, "target %q: %q can't be a node's id", t.Name, node)
	}
	if node == r.cfg.Node {
		if s := r.reg.lookup(name); s != nil {
			return s, far, nil
		}
		return nil, far, r.notFound(name)
	}
	if r.cfg.Remote == nil {
		return nil, far, shield.Errorf(shield.ModuleUnavailable, "target %q: this node (%s) is in no cluster: set cluster.node_id", t.Name, r.cfg.Node)
	}
	h, rerr := r.cfg.Remote.Resolve(node, name)
	if rerr != nil {
		return nil, far, shield.AsError(rerr, shield.ServiceNotFound)
	}
	return nil, h, nil
}

func (r *Runtime) resolveHandle(h shield.Handle) (local *Service, far shield.Handle, err *shield.Error) {
	switch {
	case h.ID == 0:
		return nil, far, shield.Errorf(shield.InvalidTarget, "the handle refers to no service")
	case h.Node != r.cfg.Node:
		if r.cfg.Remote == nil {
			return nil, far, shield.Errorf(shield.ModuleUnavailable, "handle %s: this node (%s) is in no cluster: set cluster.node_id", h, r.cfg.Node)
		}
		return nil, h, nil
	case h.Epoch != r.cfg.Epoch:
		return nil, far, shield.Errorf(shield.ServiceDead, "handle %s is from an earlier start of %s", h, h.Node)
	}
	s := r.reg.find(h.ID)
	if s == nil {
		return nil, far, shield.Errorf(shield.ServiceDead, "handle %s: the service has ended", h)
	}
	return s, far, nil
}

// notFound says what there is instead of name.
func (r *Runtime) notFound(name shield.Name) *shield.Error {
	known := r.reg.known()
	if near := shield.Nearest(string(name), known); near != "" {
		return shield.Errorf(shield.ServiceNotFound, "%s publishes no %q (did you mean %q? known: %s)", r.cfg.Node, name, near, listed(known))
	}
	if r.cfg.Remote != nil {
		at := r.cfg.Remote.Published(func(n shield.Name) bool { return n == name })
		if len(at) > 0 {
			return shield.Errorf(shield.ServiceNotFound, "%s publishes no %q, but %s does: use %q (known here: %s)",
				r.cfg.Node, name, at[0].Node, string(at[0].Node)+":"+string(name), listed(known))
		}
	}
	return shield.Errorf(shield.ServiceNotFound, "%s publishes no %q (known: %s)", r.cfg.Node, name, listed(known))
}

// checkMethod says why method can't be called, or nil.
func checkMethod(method string) *shield.Error {
	if method == "" {
		return shield.Errorf(shield.InvalidMethod, "the method must be a name, not the empty string")
	}
	if strings.HasPrefix(method, "on_") {
		return shield.Errorf(shield.InvalidMethod, "%s is a hook: only the runtime calls what begins with on_", method)
	}
	return nil
}

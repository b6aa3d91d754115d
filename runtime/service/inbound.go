package service

import (
	"log/slog"

	"shield/runtime/shield"
	"shield/runtime/value"

	lua "github.com/yuin/gopher-lua"
)

// Deliver takes an envelope from another node. reply is nil for a send and
// used exactly once for a call.
func (r *Runtime) Deliver(env *shield.Envelope, reply shield.Replier) {
	if err := r.deliver(env, reply); err != nil {
		if reply != nil {
			reply.Reply(nil, err)
			return
		}
		r.count.deadLetters.Add(1)
		if ok, dropped := r.civil.admit(0, r.clock.now()); ok {
			attrs := []any{slog.String("trace", env.Trace.String())}
			if dropped > 0 {
				attrs = append(attrs, suppressed(dropped))
			}
			r.cfg.Log.Warn("dead letter: "+env.Method+" from "+env.Source.String()+" was not delivered: "+err.Error(), attrs...)
		}
	}
}

func (r *Runtime) deliver(env *shield.Envelope, reply shield.Replier) *shield.Error {
	if r.draining.Load() && reply != nil {
		return shield.Errorf(shield.RuntimeStopping, "%s is stopping", r.cfg.Node)
	}
	if err := checkMethod(env.Method); err != nil {
		return err
	}
	if env.Target.Node != r.cfg.Node {
		return shield.Errorf(shield.InvalidTarget, "an envelope for %s came to %s", env.Target.Node, r.cfg.Node)
	}
	s, _, err := r.resolveHandle(env.Target)
	if err != nil {
		return err
	}
	m := message{kind: kindSend, method: env.Method, sender: &env.Source, trace: env.Trace}
	if env.Source.ID == 0 {
		m.sender = nil
	}
	if derr := value.Decode(&m.args, env.Args, s.lim.MaxMessageSize); derr != nil {
		return s.CopyError(derr)
	}
	env.Args = nil // the turn keeps the envelope, and must not keep the link's buffer
	if reply != nil {
		m.kind = kindCall
		m.to = &farCaller{reply: reply}
		if env.Timeout <= 0 {
			r.count.expired.Add(1)
			return shield.Errorf(shield.Timeout, "the deadline of %s passed before it arrived", env.Method)
		}
		m.deadline = later(s.now(), env.Timeout)
	}
	return s.post(&m)
}

// farCaller sends the answer back to another node.
type farCaller struct{ reply shield.Replier }

func (c *farCaller) answer(_ *Service, results *value.Payload, err *shield.Error) {
	if err != nil {
		c.reply.Reply(nil, err)
		return
	}
	c.reply.Reply(value.Bytes(results), nil)
}

// Ingress takes a client frame to the handler of its route in its target. An
// error means that no handler will see the frame.
func (r *Runtime) Ingress(in *shield.Ingress) error {
	if r.draining.Load() {
		return shield.Errorf(shield.RuntimeStopping, "%s is stopping", r.cfg.Node)
	}
	route := r.Routes().ByID(in.Route)
	if route == nil || route.Dir != shield.ClientToServer {
		return shield.Errorf(shield.RPCRouteNotFound, "%s knows no client route %d: its rpc.yaml is older or newer than the gateway's", r.cfg.Node, in.Route)
	}
	s, far, err := r.resolveHandle(in.Target)
	if err != nil {
		return err
	}
	if s == nil {
		return shield.Errorf(shield.InvalidTarget, "a frame for %s came to %s", far, r.cfg.Node)
	}
	body, derr := decodeBody(in)
	if derr != nil {
		r.count.decodeErrors.Add(1)
		return derr
	}
	m := message{kind: kindClient, method: route.Handler, trace: in.Trace, job: &job{client: in.Client, route: route.Name}}
	m.args.AddPlain(body)
	if err := s.post(&m); err != nil {
		return err
	}
	return nil
}

// Notice tells a target about one of its sessions, in order with Ingress and
// not counted against max_mailbox.
func (r *Runtime) Notice(n *shield.Notice) error {
	s, far, err := r.resolveHandle(n.Target)
	if err != nil {
		return err
	}
	if s == nil {
		return shield.Errorf(shield.InvalidTarget, "a notice for %s came to %s", far, r.cfg.Node)
	}
	notice := *n
	if err := s.post(&message{kind: kindNotice, job: &job{notice: &notice}}); err != nil {
		return err
	}
	return nil
}

// decodeBody is a frame's body as a Lua value.
func decodeBody(in *shield.Ingress) (lua.LValue, error) {
	if v, ok := in.Decoded.(lua.LValue); ok {
		return v, nil
	}
	c := value.CodecByName(in.Codec)
	if c == nil {
		return nil, shield.Errorf(shield.DecodeError, "unknown codec %q", in.Codec)
	}
	return c.Decode(in.Body)
}

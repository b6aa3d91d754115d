package node

import (
	"time"

	"shield/runtime/gateway"
	"shield/runtime/shield"
	"shield/runtime/value"
	"shield/runtime/wire"
)

// edge connects the gateways and the services of all nodes: it is the Router of
// this node's gateways and the Clients of its services. What crosses nodes goes
// as frames on the cluster's data stream, in order with calls and sends.
type edge struct{ n *Node }

// methodBind is the call to another node (service id 0) that binds a session of
// one of its gateways.
const methodBind = "bind"

// here reports whether h is a service of this node.
func (e edge) here(h shield.Handle) bool { return h.Node == e.n.id }

// ResolveAuth finds the service that a gateway's new sessions start with: on
// this node, else on any that publishes it.
func (e edge) ResolveAuth(name shield.Name) (shield.Handle, error) {
	if h, ok := e.n.Runtime().Lookup(name); ok {
		return h, nil
	}
	if e.n.cluster != nil {
		if found := e.n.cluster.Published(func(n shield.Name) bool { return n == name }); len(found) > 0 {
			return found[0].Handle, nil
		}
	}
	return shield.Handle{}, shield.Errorf(shield.ServiceNotFound, "the gateway's auth service %q is not published on this node or another", name)
}

// Ingress takes a client's frame to its target.
func (e edge) Ingress(in *shield.Ingress) error {
	if e.here(in.Target) {
		return e.n.Runtime().Ingress(in)
	}
	return e.frame(in.Target.Node, wire.KindIngress, wire.AppendIngress(nil, in))
}

// Notice tells a target what became of one of its sessions. The end of a session
// is told to a node that is out of reach when it is back.
func (e edge) Notice(nt *shield.Notice) error {
	if e.here(nt.Target) {
		return e.n.Runtime().Notice(nt)
	}
	node, body := nt.Target.Node, wire.AppendNotice(nil, nt)
	if nt.Kind == shield.NoticeUnbound || nt.Kind == shield.NoticeDisconnected {
		return e.surely(node, wire.KindNotice, body)
	}
	return e.frame(node, wire.KindNotice, body)
}

// surely sends a frame now, or when its node is back.
func (e edge) surely(node shield.NodeID, k wire.Kind, body []byte) error {
	err := e.frame(node, k, body)
	if shield.CodeOf(err) != shield.NodeOffline {
		return err
	}
	e.n.waiting.keep(node, parcel{k, body})
	e.resume(node) // it may have come back in between
	return nil
}

// resume sends what waits for a node, as far as it can be reached.
func (e edge) resume(node shield.NodeID) {
	all := e.n.waiting.take(node)
	for i, p := range all {
		err := e.frame(node, p.kind, p.body)
		if shield.CodeOf(err) == shield.NodeOffline {
			e.n.waiting.keep(node, all[i:]...)
			return
		}
		if err != nil {
			e.n.log.Debug("session frame lost", "service", "gateway", "node", string(node), "kind", p.kind.String(), "err", err)
		}
	}
}

// Moved lets the node of a session's last target forget the session.
func (e edge) Moved(ref shield.ClientRef, last shield.Handle) {
	if e.here(last) {
		return
	}
	nt := &shield.Notice{Kind: shield.NoticeMoved, Client: ref, Target: last}
	if err := e.Notice(nt); err != nil { // the node is gone, and what it remembered with it
		e.n.log.Debug("session not forgotten", "service", "gateway", "session", string(ref.Session), "node", string(last.Node), "err", err)
	}
}

// TargetName is how people call a target: "node:name", or the handle's own form
// where the service has no name.
func (e edge) TargetName(h shield.Handle) string {
	if name, ok := e.n.nameOf(h); ok {
		return string(h.Node) + ":" + string(name)
	}
	return h.String()
}

// Bind moves a session to a new target, wherever its gateway is.
func (e edge) Bind(ref shield.ClientRef, target shield.Handle, player string, timeout time.Duration, done func(shield.ClientRef, error)) {
	if ref.Gateway.Node() == e.n.id {
		gw, err := e.gateway(ref)
		if err != nil {
			done(shield.ClientRef{}, err)
			return
		}
		done(gw.Bind(ref, target, player))
		return
	}
	if e.n.cluster == nil {
		done(shield.ClientRef{}, errNoGateway(ref))
		return
	}
	args, err := value.PayloadOf(ref, target, player)
	if err != nil {
		done(shield.ClientRef{}, err)
		return
	}
	w := &bindWaiter{done: done}
	id, err := e.n.cluster.Call(&shield.Envelope{
		Source: shield.Handle{Node: e.n.id, Epoch: e.n.Epoch()},
		Target: shield.Handle{Node: ref.Gateway.Node()},
		Method: methodBind, Args: value.Append(nil, &args), Timeout: timeout,
	}, w)
	if err != nil {
		w.finish(shield.ClientRef{}, err)
		return
	}
	w.expire(timeout, func() {
		e.n.cluster.Cancel(id)
		w.finish(shield.ClientRef{}, shield.Errorf(shield.Timeout, "bind %s: the gateway's node %s did not answer within %v", ref.Session, ref.Gateway.Node(), timeout))
	})
}

// Push hands one frame for a client to its gateway.
func (e edge) Push(p *shield.Push) {
	if p.Client.Gateway.Node() != e.n.id {
		if err := e.frame(p.Client.Gateway.Node(), wire.KindPush, wire.AppendPush(nil, p)); err != nil {
			e.n.count.lostPushes.Add(1)
			e.n.log.Debug("push lost on its way to the gateway", "service", "gateway", "session", string(p.Client.Session), "err", err)
		}
		return
	}
	gw, err := e.gateway(p.Client)
	if err != nil {
		e.n.count.lostPushes.Add(1)
		return
	}
	gw.Push(p)
}

// Close ends a session, wherever its gateway is.
func (e edge) Close(ref shield.ClientRef, reason string) error {
	if ref.Gateway.Node() != e.n.id {
		return e.frame(ref.Gateway.Node(), wire.KindClose, wire.AppendClose(nil, &wire.Close{Client: ref, Reason: reason}))
	}
	gw, err := e.gateway(ref)
	if err != nil {
		return err
	}
	return gw.CloseSession(ref, reason)
}

func (e edge) frame(node shield.NodeID, k wire.Kind, body []byte) error {
	if e.n.cluster == nil {
		return shield.Errorf(shield.NodeNotFound, "node %q: this node is in no cluster (set cluster.node_id)", node)
	}
	return e.n.cluster.SendFrame(node, k, body)
}

func (e edge) gateway(ref shield.ClientRef) (*gateway.Gateway, error) {
	for _, g := range e.n.gateways {
		if g.ID() == ref.Gateway {
			return g, nil
		}
	}
	return nil, errNoGateway(ref)
}

func errNoGateway(ref shield.ClientRef) error {
	return shield.Errorf(shield.ModuleUnavailable, "gateway %q of session %s is not configured (see gateways in shield.yaml)", ref.Gateway, ref.Session)
}

// Deliver takes an envelope from another node to a service, or to this node
// itself.
func (e edge) Deliver(env *shield.Envelope, reply shield.Replier) {
	services := e.n.Runtime()
	switch {
	case services != nil && env.Target.ID != 0:
		services.Deliver(env, reply)
	case reply == nil: // the node itself takes calls only
	case services == nil:
		reply.Reply(nil, shield.Errorf(shield.ServiceDead, "node %q is starting: service %s does not run yet", e.n.id, env.Target))
	case env.Method != methodBind:
		reply.Reply(nil, shield.Errorf(shield.MethodNotFound, "node %q has no method %q", e.n.id, env.Method))
	default:
		out, err := e.bindFrom(env)
		reply.Reply(out, shield.AsError(err, shield.HandlerError))
	}
}

func (e edge) bindFrom(env *shield.Envelope) ([]byte, error) {
	var args value.Payload
	if err := value.Decode(&args, env.Args, 0); err != nil {
		return nil, err
	}
	ref, okRef := value.AsClientRef(args.At(0))
	target, okTarget := value.AsHandle(args.At(1))
	player, okPlayer := value.ToGo(args.At(2)).(string)
	if !okRef || !okTarget || !okPlayer {
		return nil, shield.Errorf(shield.DecodeError, "bind from node %q: want a client ref, a handle and a player", env.Source.Node)
	}
	gw, err := e.gateway(ref)
	if err != nil {
		return nil, err
	}
	bound, err := gw.Bind(ref, target, player)
	if err != nil {
		return nil, err
	}
	result, err := value.PayloadOf(bound)
	return value.Append(nil, &result), err
}

// Frame takes session traffic from another node.
func (e edge) Frame(from shield.NodeID, _ shield.NodeEpoch, kind wire.Kind, body []byte) {
	if e.n.Runtime() == nil {
		e.n.count.refusedFrames.Add(1)
		return
	}
	var err error
	switch kind {
	case wire.KindIngress:
		err = e.ingressFrom(from, body)
	case wire.KindNotice:
		err = e.noticeFrom(from, body)
	case wire.KindPush:
		var p *shield.Push
		if p, err = wire.DecodePush(body); err == nil {
			e.Push(p)
		}
	case wire.KindClose:
		var c *wire.Close
		if c, err = wire.DecodeClose(body); err == nil {
			err = e.closeFrom(c)
		}
	default:
		err = shield.Errorf(shield.DecodeError, "frame of unknown %s", kind)
	}
	if err != nil {
		e.n.count.refusedFrames.Add(1)
		e.n.log.Debug("session frame refused", "service", "gateway", "from", string(from), "kind", kind.String(), "err", err)
	}
}

// noticeFrom tells a service what became of a session of another node's gateway.
// A session that was bound to a service that is gone has to be closed.
func (e edge) noticeFrom(from shield.NodeID, body []byte) error {
	nt, err := wire.DecodeNotice(body)
	if err != nil {
		return err
	}
	known := e.n.guests.heard(from, nt)
	if nt.Kind == shield.NoticeMoved {
		return nil
	}
	if nt.Kind != shield.NoticeBound && nt.Client.Epoch > 0 && !known {
		return nil // its target has heard of the end already, from onMember
	}
	err = e.n.Runtime().Notice(nt)
	if nt.Kind == shield.NoticeBound && gone(err) {
		e.n.guests.forget(from, nt.Client.Session)
		return e.closeAt(from, nt.Client, shield.CodeOf(err))
	}
	return err
}

// gone reports that a target can take nothing more, ever.
func gone(err error) bool {
	c := shield.CodeOf(err)
	return c == shield.ServiceDead || c == shield.RuntimeStopping
}

// closeAt tells the node whose gateway owns a session that its target is gone.
func (e edge) closeAt(node shield.NodeID, ref shield.ClientRef, code shield.Code) error {
	return e.surely(node, wire.KindClose, wire.AppendClose(nil, &wire.Close{Client: ref, Gone: true, Reason: string(code)}))
}

// ingressFrom delivers a frame that another node's gateway read. A dead target
// is told back, so that the gateway closes the session with that code.
func (e edge) ingressFrom(from shield.NodeID, body []byte) error {
	in, err := wire.DecodeIngress(body)
	if err != nil {
		return err
	}
	err = e.n.Runtime().Ingress(in)
	if gone(err) {
		return e.closeAt(from, in.Client, shield.CodeOf(err))
	}
	return err
}

func (e edge) closeFrom(c *wire.Close) error {
	gw, err := e.gateway(c.Client)
	if err != nil {
		return err
	}
	if c.Gone {
		gw.BindingGone(c.Client, shield.Code(c.Reason))
		return nil
	}
	return gw.CloseSession(c.Client, c.Reason)
}

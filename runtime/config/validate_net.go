package config

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"shield/runtime/shield"
)

// Listener is one address of a gateway and the protocol spoken there.
type Listener struct {
	Transport string // tcp, tls, ws, wss, quic
	Address   string
}

// Listeners lists the addresses of a gateway.
func (n *Network) Listeners() []Listener {
	var out []Listener
	for _, l := range []Listener{{"tcp", n.TCP}, {"tls", n.TLS}, {"ws", n.WS}, {"wss", n.WSS}, {"quic", n.QUIC}} {
		if l.Address != "" {
			out = append(out, l)
		}
	}
	return out
}

// gateways checks what must hold within and between gateways.
func (v *validator) gateways() {
	seen := map[string]int{}
	bound := map[string][]socket{}
	for i := range v.c.Gateways {
		g := &v.c.Gateways[i]
		path := fmt.Sprintf("gateways[%d]", i)
		if first, dup := seen[g.Name]; dup && g.Name != "" {
			v.problem(path+".name", "", "the name %q is already taken by gateways[%d] in %s", g.Name, first, v.c.Gateways[first].Pos)
		} else {
			seen[g.Name] = i
		}
		v.gatewayAuth(g, path)
		if len(g.Network.Listeners()) == 0 && !v.broken(path+".network") {
			v.problem(path+".network", "such as tcp: 127.0.0.1:7001", "a gateway needs an address: tcp, tls, ws or wss")
		}
		for _, l := range g.Network.Listeners() {
			if (l.Transport == "tls" || l.Transport == "wss") && (g.Network.Cert == "" || g.Network.Key == "") {
				v.problem(path+".network", "", "%s needs cert and key", l.Transport)
			}
			v.bind(bound, socket{path + ".network." + l.Transport, g.Nodes}, l.Transport == "quic", l.Address)
			v.samePort(g, path+".network."+l.Transport, l.Address)
		}
		v.frame(g, path+".network.protocol.envelope")
	}
	if address, ok := strings.CutPrefix(v.c.Control.Listen, "tcp://"); ok {
		v.bind(bound, socket{path: "control.listen"}, false, address)
	}
	if len(v.c.Gateways) > 0 && len(v.c.RPC) == 0 && !v.bad[RPCFileName] {
		v.warn("gateways", "add "+RPCFileName, "clients can connect but there is no route they may speak on")
	}
}

func (v *validator) gatewayAuth(g *Gateway, path string) {
	at := path + ".auth"
	if g.Auth == "" || v.broken(at) {
		return
	}
	var published []string
	for i := range v.c.Services {
		s := &v.c.Services[i]
		for _, n := range s.Published() {
			published = append(published, string(n))
			if n != g.Auth {
				continue
			}
			for _, node := range g.Nodes {
				if len(s.Nodes) > 0 && !slices.Contains(s.Nodes, node) {
					v.problem(at, fmt.Sprintf("add %s to the nodes of %s", node, s.Name), "the gateway runs on %s, where the service %q does not", node, s.Name)
				}
			}
			if len(g.Nodes) == 0 && len(s.Nodes) > 0 {
				v.problem(at, "give both the same nodes", "the gateway runs on every node, the service %q only on some", s.Name)
			}
			return
		}
	}
	v.unknown(at, "service", string(g.Auth), published)
}

// socket is what binds an address: the key that says so, and its nodes.
type socket struct {
	path  string
	nodes []shield.NodeID // empty = every node
}

// bind refuses two sockets on one address where one machine has both. Port 0
// never clashes. bound holds those so far, by protocol and address.
func (v *validator) bind(bound map[string][]socket, s socket, udp bool, address string) {
	_, port, err := net.SplitHostPort(address)
	if err != nil || port == "0" {
		return
	}
	key := "tcp " + address
	if udp {
		key = "udp " + address
	}
	for _, first := range bound[key] {
		apart := len(s.nodes) > 0 && len(first.nodes) > 0 &&
			!slices.ContainsFunc(s.nodes, func(id shield.NodeID) bool { return slices.Contains(first.nodes, id) })
		if v.opts.Dev || !apart {
			v.problem(s.path, "use another port", "%s is already the address of %s", address, first.path)
			return
		}
	}
	bound[key] = append(bound[key], s)
}

// samePort refuses a fixed port on several nodes of one machine, which is what
// shield dev makes.
func (v *validator) samePort(g *Gateway, path, address string) {
	_, port, err := net.SplitHostPort(address)
	if !v.opts.Dev || err != nil || port == "0" {
		return
	}
	n := len(g.Nodes)
	if n == 0 {
		n = max(v.opts.Nodes, 1)
		if v.opts.Nodes == 0 {
			n = v.c.Dev.Nodes
		}
	}
	if n > 1 {
		v.problem(path, "give the gateway one node, or use port 0", "%d nodes of this machine can't all listen on port %s", n, port)
	}
}

func (v *validator) frame(g *Gateway, path string) {
	e := &g.Network.Protocol.Envelope
	if v.broken(path) || !slices.Contains([]int{1, 2, 4}, e.LengthBytes) || !slices.Contains([]int{1, 2, 4}, e.RouteIDBytes) {
		return
	}
	header := e.RouteIDBytes + e.LengthBytes
	if most := uint64(1)<<(8*e.LengthBytes) - 1; uint64(max(0, e.MaxFrameSize-header)) > most {
		v.problem(path+".max_frame_size", fmt.Sprintf("at most %s, or a larger length_bytes", formatSize(int64(most)+int64(header))),
			"%s does not fit a length of %d bytes", formatSize(int64(e.MaxFrameSize)), e.LengthBytes)
	}
	if most := uint64(1)<<(8*e.RouteIDBytes) - 1; len(v.c.RPC) > 0 {
		for _, r := range v.c.RPC {
			if uint64(r.ID) > most {
				v.problem(path+".route_id_bytes", "", "the route id %d (%s) does not fit %d bytes", r.ID, r.Pos, e.RouteIDBytes)
				break
			}
		}
	}
}

// cluster checks times, identity and trust.
func (v *validator) cluster() {
	c := &v.c.Cluster
	v.clusterTimes(c)
	if d := &c.Discovery; d.Type == "redis" && d.TTL <= d.HeartbeatInterval {
		v.problem(v.written("cluster.discovery.ttl_seconds", "cluster.discovery.heartbeat_interval_ms"), "",
			"ttl_seconds (%s) is not longer than heartbeat_interval_ms (%s): the node would vanish between two renewals", d.TTL, d.HeartbeatInterval)
	}
	if v.opts.Dev {
		return // identity, addresses and keys are shield dev's
	}
	v.clusterAuth(&c.Auth)
	if c.NodeID == "" {
		return
	}
	if c.Listen == "" && !v.broken("cluster.listen") {
		v.problem("cluster.listen", "such as 127.0.0.1:9000", "is required once cluster.node_id is set")
	}
	if isLoopback(c.advertised()) {
		for i, p := range c.Peers {
			if host, _, err := net.SplitHostPort(p); err == nil && host != "" && !isLoopback(p) {
				v.warn(fmt.Sprintf("cluster.peers[%d]", i), "set cluster.advertise to an address that peer can reach",
					"%s is on another machine, but this node tells others to dial %s", p, c.advertised())
				break
			}
		}
	}
}

// advertised is the address that other nodes are told to dial.
func (c *Cluster) advertised() string {
	if c.Advertise != "" {
		return c.Advertise
	}
	return c.Listen
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

func (v *validator) clusterTimes(c *Cluster) {
	const path = "cluster."
	if v.broken("cluster.heartbeat_interval_ms") || v.broken("cluster.suspect_timeout_ms") || v.broken("cluster.offline_timeout_ms") {
		return
	}
	switch {
	case c.HeartbeatInterval >= c.SuspectTimeout:
		v.problem(v.written(path+"suspect_timeout_ms", path+"heartbeat_interval_ms"), "three heartbeats are a good choice",
			"suspect_timeout_ms (%s) is not longer than heartbeat_interval_ms (%s): every node would be suspect", c.SuspectTimeout, c.HeartbeatInterval)
	case c.SuspectTimeout >= c.OfflineTimeout:
		v.problem(v.written(path+"offline_timeout_ms", path+"suspect_timeout_ms"), "",
			"offline_timeout_ms (%s) is not longer than suspect_timeout_ms (%s)", c.OfflineTimeout, c.SuspectTimeout)
	case c.OfflineTimeout >= c.RemovedTimeout && !v.broken("cluster.removed_timeout_ms"):
		v.problem(v.written(path+"removed_timeout_ms", path+"offline_timeout_ms"), "",
			"removed_timeout_ms (%s) is not longer than offline_timeout_ms (%s)", c.RemovedTimeout, c.OfflineTimeout)
	}
}

// written is the first of the keys that somebody set: a contradiction with a
// default is shown where there is a line to change.
func (v *validator) written(paths ...string) string {
	for _, p := range paths {
		if _, ok := v.c.origins[p]; ok {
			return p
		}
	}
	return paths[0]
}

func (v *validator) clusterAuth(a *Auth) {
	const path = "cluster.auth"
	switch a.Type {
	case "token":
		switch {
		case v.broken(path + ".token"):
		case a.Token == "":
			v.problem(path+".token", `such as "${SHIELD_CLUSTER_TOKEN}"`, "type token needs a key")
		case len(a.Token) < 16:
			v.warn(path+".token", "32 random characters are a good choice", "the key is %d bytes long and can be guessed", len(a.Token))
		}
	case "none":
		if a.Token != "" || a.PreviousToken != "" {
			v.problem(path+".type", "write type: token", "there is a key, but type none does not use it")
		}
	}
}

func (v *validator) control() {
	c := &v.c.Control
	if c.Listen != "" && c.Token == "" && !v.broken("control.token") {
		v.problem("control.listen", `add token: "${SHIELD_CONTROL_TOKEN}"`, "a port of the control API needs a token")
	}
}

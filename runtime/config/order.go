package config

import (
	"slices"

	"shield/runtime/shield"
)

// service finds a service by its entry's name, nil when there is none.
func (c *Config) service(name shield.Name) *Service {
	for i := range c.Services {
		if c.Services[i].Name == name {
			return &c.Services[i]
		}
	}
	return nil
}

// order sorts services so that what one depends on comes before it; apart from
// that they stay in file order. A cycle is returned as names that begin and end
// with the same one.
func (c *Config) order() (sorted []*Service, cycle []shield.Name) {
	const (
		unseen = iota
		open
		done
	)
	state := map[*Service]int{}
	var path []shield.Name
	var visit func(s *Service) bool
	visit = func(s *Service) bool {
		switch state[s] {
		case done:
			return true
		case open:
			from := slices.Index(path, s.Name)
			cycle = append(slices.Clone(path[from:]), s.Name)
			return false
		}
		state[s] = open
		path = append(path, s.Name)
		for _, name := range s.DependsOn {
			if dep := c.service(name); dep != nil && !visit(dep) {
				return false
			}
		}
		path = path[:len(path)-1]
		state[s] = done
		sorted = append(sorted, s)
		return true
	}
	for i := range c.Services {
		if !visit(&c.Services[i]) {
			return nil, cycle
		}
	}
	return sorted, nil
}

func (c *Config) cycle() []shield.Name {
	_, cycle := c.order()
	return cycle
}

// ServicesOn lists the services of node in the order in which they start: what
// a service depends on comes before it. Services with zero instances are
// included; they are only there to be spawned.
func (c *Config) ServicesOn(node shield.NodeID) []Service {
	sorted, _ := c.order() // Load has refused cycles
	var out []Service
	for _, s := range sorted {
		if runsOn(s.Nodes, node) {
			out = append(out, *s)
		}
	}
	return out
}

// GatewaysOn lists the gateways of node.
func (c *Config) GatewaysOn(node shield.NodeID) []Gateway {
	var out []Gateway
	for _, g := range c.Gateways {
		if runsOn(g.Nodes, node) {
			out = append(out, g)
		}
	}
	return out
}

// runsOn reports whether a list of nodes means node. An empty list means every
// node, and so does any list while no cluster gives nodes their ids.
func runsOn(nodes []shield.NodeID, node shield.NodeID) bool {
	return len(nodes) == 0 || node == "" || node == shield.LocalNode || slices.Contains(nodes, node)
}

// Node is what shield dev sets for each of its nodes.
type Node struct {
	ID     shield.NodeID
	Listen string
	Peers  []string
	Token  string // "" = cluster.auth.type none
}

// ForNode gives a copy of c for one node of shield dev. Discovery and advertise
// are switched off: the nodes of one process know each other.
func (c *Config) ForNode(n Node) *Config {
	out := c.Clone()
	cl := &out.Cluster
	cl.NodeID, cl.Listen, cl.Peers, cl.Advertise = n.ID, n.Listen, slices.Clone(n.Peers), ""
	cl.Discovery = Default().Cluster.Discovery
	cl.Auth = Auth{Type: "none"}
	if n.Token != "" {
		cl.Auth = Auth{Type: "token", Token: n.Token}
	}
	for _, key := range []string{"node_id", "listen", "peers", "advertise", "discovery", "auth"} {
		path := "cluster." + key
		for p := range out.origins {
			if p == path || len(p) > len(path) && p[:len(path)] == path && (p[len(path)] == '.' || p[len(path)] == '[') {
				delete(out.origins, p)
			}
		}
		out.origins[path] = Origin{Source: FromDev}
	}
	return out
}

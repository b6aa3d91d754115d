package config

import "shield/runtime/shield"

// FileName is the file that makes a folder a project.
const FileName = "shield.yaml"

// RPCFileName is where the RPC routes are.
const RPCFileName = "rpc.yaml"

// Options say what Load reads.
type Options struct {
	// Dir is the project folder. Empty = the folder of Overlay, else the
	// working folder.
	Dir string
	// Overlay is the file of --config. It lies over shield.yaml, or is all
	// there is.
	Overlay string
	// Environ is the environment, as os.Environ gives it. nil = empty.
	Environ []string
	// Dev loads for shield dev, which sets node ids, addresses, peers and keys
	// itself: secrets that are missing from the environment are no problem, and
	// the set of nodes is known.
	Dev bool
	// Nodes is the number of nodes that --nodes asked for; 0 = dev.nodes.
	Nodes int
}

// Load reads a project: files, overlay, environment, rpc.yaml. It reports all
// problems at once as Problems; the Config is nil exactly when there are any.
func Load(opts Options) (*Config, error) { panic("being written") }

// Find gives the project folder that start lies in: the nearest folder, start
// itself or above it, that holds shield.yaml.
func Find(start string) (dir string, ok bool) { panic("being written") }

// ParseRPC reads rpc.yaml for a reload and checks it against cfg. file is the
// name that problems carry.
func ParseRPC(file string, src []byte, cfg *Config) ([]Route, error) { panic("being written") }

// Table makes the immutable table of c.RPC.
func (c *Config) Table() *shield.RPCTable { panic("being written") }

// Default gives a project with no services: every key at its default.
func Default() *Config { panic("being written") }

// Clone copies c so deeply that the two share nothing that can be written to.
func (c *Config) Clone() *Config { panic("being written") }

// Node is what shield dev sets for each of its nodes.
type Node struct {
	ID     shield.NodeID
	Listen string
	Peers  []string
	Token  string // "" = cluster.auth.type none
}

// ForNode gives a copy of c for one node of shield dev.
func (c *Config) ForNode(n Node) *Config { panic("being written") }

// ServicesOn lists the services that node starts, in the order in which they
// start: what a service depends on comes before it. Services with zero
// instances are included; they are only there to be spawned.
func (c *Config) ServicesOn(node shield.NodeID) []Service { panic("being written") }

// GatewaysOn lists the gateways of node.
func (c *Config) GatewaysOn(node shield.NodeID) []Gateway { panic("being written") }

// Schema gives the JSON schema of shield.yaml, for editors.
func Schema() []byte { panic("being written") }

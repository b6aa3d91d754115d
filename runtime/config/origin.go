package config

import "strings"

// Source is the kind of place a value came from.
type Source string

// The sources, from the weakest to the strongest.
const (
	FromDefault Source = "default"
	FromFile    Source = "file"
	FromEnv     Source = "env"
	FromDev     Source = "dev"
)

// Origin is where a value came from.
type Origin struct {
	Source Source `json:"source"`
	Pos           // of the value, where a file holds it
	// Env is the variable that decided the value: one that overrides the key,
	// or one that the file reads with ${NAME}.
	Env string `json:"env,omitempty"`
}

// String is what `config show --origin` prints: shield.yaml:12, env NAME,
// default.
func (o Origin) String() string {
	at := o.Pos
	at.Column = 0
	var parts []string
	if s := at.String(); s != "" {
		parts = append(parts, s)
	}
	if o.Env != "" {
		parts = append(parts, "env "+o.Env)
	}
	if len(parts) == 0 {
		return string(o.Source)
	}
	return strings.Join(parts, ", ")
}

// Origin says where the value at path came from, such as cluster.node_id or
// services[0].nodes. A path inside a value gives the value's origin, and a limit
// that a service inherits that of the top level.
func (c *Config) Origin(path string) Origin {
	for p := path; ; {
		if o, ok := c.origins[p]; ok {
			return o
		}
		i := strings.LastIndexAny(p, ".[")
		if i < 0 {
			break
		}
		p = p[:i]
	}
	if _, limit, ok := strings.Cut(path, "].limits."); ok && strings.HasPrefix(path, "services[") {
		return c.Origin("limits." + limit)
	}
	return Origin{Source: FromDefault}
}

// place is where a problem with path is shown: the value's own place, else that
// of the nearest thing around it.
func (c *Config) place(path string) Pos {
	for {
		if o, ok := c.origins[path]; ok {
			if o.Source == FromEnv {
				return Pos{File: "env " + o.Env}
			}
			return o.Pos
		}
		if pos, ok := c.sections[path]; ok {
			return pos
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			return c.sections[""]
		}
		path = path[:i]
	}
}

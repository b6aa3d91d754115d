package play

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"shield/runtime/shield"
	"shield/runtime/value"
)

// route finds the id and codec behind a name; a number stands for itself.
func (c *Conn) route(name string) (shield.RouteID, string, error) {
	if r := c.cfg.Routes.ByName(name); r != nil {
		return r.ID, c.codec(r), nil
	}
	if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		id := shield.RouteID(n)
		return id, c.codec(c.cfg.Routes.ByID(id)), nil
	}
	return 0, "", unknownRoute(c.cfg.Routes, name)
}

// unknownRoute names what the client may say, with the nearest first.
func unknownRoute(routes *shield.RPCTable, name string) error {
	var known []string
	for _, r := range routes.All() {
		if r.Dir == shield.ClientToServer {
			known = append(known, r.Name)
		}
	}
	msg := fmt.Sprintf("rpc.yaml has no route %q", name)
	if near := shield.Nearest(name, known); near != "" {
		msg += fmt.Sprintf(" (did you mean %q?)", near)
	}
	return shield.Errorf(shield.RPCRouteNotFound, "%s", msg)
}

// codec is the listener's, else the route's, else json.
func (c *Conn) codec(r *shield.RPCRoute) string {
	switch {
	case c.cfg.Codec != "":
		return c.cfg.Codec
	case r != nil && r.Codec != "":
		return r.Codec
	default:
		return "json"
	}
}

// encode turns JSON into the body of a frame.
func encode(codec string, text []byte) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	if !json.Valid(text) {
		return nil, shield.Errorf(shield.EncodeFailed, "the body %s is no JSON", quoted(text))
	}
	if codec == "json" {
		return text, nil
	}
	k := value.CodecByName(codec)
	if k == nil {
		return nil, shield.Errorf(shield.EncodeFailed, "this client has no codec %q", codec)
	}
	v, err := value.ParseJSON(text)
	if err != nil {
		return nil, err
	}
	return k.Append(nil, v)
}

func quoted(text []byte) string { return strconv.Quote(string(text[:min(len(text), 60)])) }

// push makes a frame readable. A body that does not decode is shown as the
// bytes it is: hiding it would hide the fault.
func (c *Conn) push(id shield.RouteID, body []byte) Push {
	r := c.cfg.Routes.ByID(id)
	p := Push{ID: id, Name: strconv.FormatUint(uint64(id), 10)}
	if r != nil {
		p.Name = r.Name
	}
	p.Body = decode(c.codec(r), body)
	return p
}

func decode(codec string, body []byte) json.RawMessage {
	if len(body) == 0 {
		return nil
	}
	if codec == "json" {
		var b bytes.Buffer
		if json.Compact(&b, body) == nil { // keeps order and digits as they came
			return b.Bytes()
		}
	}
	if k := value.CodecByName(codec); k != nil {
		if v, err := value.Trusting(k).Decode(body); err == nil {
			return value.AppendJSON(nil, v)
		}
	}
	raw, _ := value.Raw.Decode(body) // any bytes are a string
	return value.AppendJSON(nil, raw)
}

// holds reports whether have has everything that want has: objects may have
// more keys, all else must be equal.
func holds(have, want any) bool {
	w, ok := want.(map[string]any)
	if !ok {
		if list, ok := want.([]any); ok {
			return holdsAll(have, list)
		}
		return have == want
	}
	h, ok := have.(map[string]any)
	if !ok {
		return false
	}
	for k, v := range w {
		hv, ok := h[k]
		if !ok || !holds(hv, v) {
			return false
		}
	}
	return true
}

func holdsAll(have any, want []any) bool {
	h, ok := have.([]any)
	if !ok || len(h) != len(want) {
		return false
	}
	for i := range want {
		if !holds(h[i], want[i]) {
			return false
		}
	}
	return true
}

func tlsClient(cfg *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true}}
}

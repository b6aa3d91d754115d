package gateway

import (
	"log/slog"
	"strings"
	"testing"

	"shield/runtime/shield"
)

// TestRefusalSaysWhy wants what was refused, why, and the session in the log:
// the client hears nothing.
func TestRefusalSaysWhy(t *testing.T) {
	tests := []struct {
		route shield.RouteID
		body  string
		want  string
	}{
		{999, "{}", "client_rpc.route_not_found: rpc.yaml has no route with the id 999"},
		{5, "x", "client_rpc.route_not_found: 5 is none of the gateway's own ids"},
		{rLoginOK, "{}", "client_rpc.direction_rejected: auth.login_ok goes to the client"},
		{rMove, "{}", "client_rpc.not_authenticated: player.move wants a login"},
		{rSmall, `"nine bytes"`, "frame_too_large: the body of small has 12 bytes, and may have 8 (max_body)"},
		{shield.RoutePing, strings.Repeat("x", 200), "frame_too_large: the body of 2 has 200 bytes, and may have 128"},
		{rSlow, "1", "rate_limited: slow comes more than 1 times a second"},
		{rLogin, "{not json", "decode_error: its body does not decode"},
	}
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			var log lockedBuffer
			r := newRig(t, pipe, func(c *Config) {
				c.Protocol.Provider = "json"
				c.Log = slog.New(slog.NewTextHandler(&log, nil))
			})
			b := r.dial()
			for range 3 { // the slow route takes two
				b.send(tt.route, tt.body)
			}
			b.send(shield.RoutePing, "sync")
			b.want(shield.RoutePong, "sync")
			if got := log.String(); !strings.Contains(got, "frame refused: "+tt.want) || !strings.Contains(got, "session=s-") {
				t.Errorf("the log says\n%s\nwant %q and the session", got, tt.want)
			}
		})
	}
}

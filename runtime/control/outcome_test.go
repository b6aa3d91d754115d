package control

import (
	"testing"

	"shield/runtime/shield"
)

// The audit says how an action ended, not that the request was understood.
func TestOutcome(t *testing.T) {
	broken := &Error{Code: shield.ScriptLoadFailed, Message: "a.lua:1: no"}
	for _, tt := range []struct {
		name string
		res  any
		err  error
		want shield.Code
	}{
		{"a call that worked", CallResult{OK: true}, nil, ""},
		{"a call that failed", CallResult{Error: &Error{Code: shield.HandlerError}}, nil, shield.HandlerError},
		{"a call that timed out", CallResult{Error: &Error{Code: shield.Timeout, Retryable: true}}, nil, shield.Timeout},
		{"a reload that worked", ReloadResult{OK: true, Services: []ReloadRow{{}}}, nil, ""},
		{"a reload that one service refused", ReloadResult{Services: []ReloadRow{{}, {Error: broken}}}, nil, shield.ScriptLoadFailed},
		{"a refused request", CallResult{}, evalOff(), shield.PermissionDenied},
	} {
		if have := shield.CodeOf(outcome(tt.res, tt.err)); have != tt.want {
			t.Errorf("%s: the outcome is %q, want %q", tt.name, have, tt.want)
		}
	}
}

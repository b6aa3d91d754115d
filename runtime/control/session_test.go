package control_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"shield/runtime/control"
	"shield/runtime/control/controltest"
	"shield/runtime/shield"
)

// A session answers to the beginning of its id that log lines show, unless two
// begin alike or too little is given.
func TestSessionByItsBeginning(t *testing.T) {
	rows := controltest.Three()
	rows.Sessions = []shield.SessionRow{
		{Session: "s-08cf88378f4dd1816c8cb227", Player: "ann"}, {Session: "s-08cf99990000000000000000", Player: "bob"}, {Session: "s-1", Player: "eve"},
	}
	s := control.NewServer(control.Config{Host: controltest.New(rows)})
	for _, tt := range []struct{ id, want string }{
		{"s-08cf8837", "ann"}, {"s-08cf9", "bob"}, {"s-08cf88378f4dd1816c8cb227", "ann"}, {"s-1", "eve"},
		{"s-08cf", "session_closed"}, {"s-0", "session_closed"}, {"s-08cf8838", "session_closed"},
	} {
		rec := httptest.NewRecorder()
		s.Handler(control.Access{}).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/ops/sessions/"+tt.id, nil))
		if !strings.Contains(rec.Body.String(), `"`+tt.want+`"`) {
			t.Errorf("session %s: %s, want %s", tt.id, rec.Body, tt.want)
		}
	}
}

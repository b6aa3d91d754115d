package testrun

import (
	"encoding/json"
	"fmt"
	"time"

	lua "github.com/yuin/gopher-lua"

	"shield/runtime/shield"
	"shield/runtime/value"
)

// What a test asks of the log: log.expect, log.none, log.lines.

// logPattern finds lines whose text a Lua pattern matches.
func (r *runner) logPattern(L *lua.LState) (matches func(*shield.LogRow) bool, pattern string) {
	pattern = L.CheckString(1)
	var opts *lua.LTable
	for i := 2; i <= L.GetTop(); i++ {
		if t, ok := L.Get(i).(*lua.LTable); ok {
			opts = t
		}
	}
	return func(row *shield.LogRow) bool {
		if opts != nil {
			for key, have := range map[string]string{"level": row.Level, "node": string(row.Node), "service": row.Service} {
				if want := opts.RawGetString(key); want != lua.LNil && want.String() != have {
					return false
				}
			}
		}
		return r.find(L, row.Text, pattern)
	}, pattern
}

// logExpect is log.expect(pattern[, {level=, node=, service=}][, timeout]): a
// line that was logged since the test began, or is within the time.
func (r *runner) logExpect(L *lua.LState) int {
	row, pattern, limit := r.logFind(L, expectLimit)
	if row == nil {
		throw(L, &Failure{Message: fmt.Sprintf("expected a line of the log that matches %q within %v", pattern, limit)})
	}
	b, err := json.Marshal(row)
	if err != nil {
		raise(L, err)
	}
	v, err := value.ParseJSON(b)
	if err != nil {
		raise(L, err)
	}
	L.Push(v)
	return 1
}

func (r *runner) logNone(L *lua.LState) int {
	row, pattern, _ := r.logFind(L, 0)
	if row != nil {
		throw(L, &Failure{Message: fmt.Sprintf("expected no line of the log that matches %q\nthere is:\n  %s", pattern, r.book.text(row))})
	}
	return 0
}

func (r *runner) logFind(L *lua.LState, limit time.Duration) (*shield.LogRow, string, time.Duration) {
	matches, pattern := r.logPattern(L)
	for i := 2; i <= L.GetTop(); i++ {
		if t := L.Get(i).Type(); t == lua.LTString || t == lua.LTNumber {
			limit = duration(L, i)
		}
	}
	seen := r.logFrom
	for end := time.Now().Add(limit); ; {
		rows, more := r.book.since(seen)
		for i := range rows {
			if matches(&rows[i]) {
				return &rows[i], pattern, limit
			}
		}
		left := time.Until(end)
		if left <= 0 {
			return nil, pattern, limit
		}
		r.wait(L, "log.expect", func() {
			timer := time.NewTimer(left)
			defer timer.Stop()
			select {
			case <-more:
			case <-timer.C:
			}
		})
	}
}

// logLines is what was logged since the test began.
func (r *runner) logLines(L *lua.LState) int {
	var list lua.LValue
	var err error
	r.wait(L, "log.lines", func() {
		rows, _ := r.book.since(r.logFrom)
		var b []byte
		if b, err = json.Marshal(rows); err == nil {
			list, err = value.ParseJSON(b)
		}
	})
	if err != nil {
		raise(L, err)
	}
	L.Push(list)
	return 1
}

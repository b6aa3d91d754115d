package tui

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"shield/runtime/shield"
	"shield/tui/grid"
	"shield/tui/theme"
)

const (
	maxLogs   = 5000 // lines that are kept
	slackLogs = 1000 // how many more before the oldest are let go
)

var levels = []string{"debug", "info", "warn", "error"}

func levelOf(word string) int { return max(slices.Index(levels, word), 0) }

type logItem struct {
	shield.LogRow
	hay string
}

// logPane shows the log. It follows the newest line until its reader looks back;
// from then on what is on the screen never moves, and new lines are counted.
type logPane struct {
	live    []logItem // oldest first; only appended to, so that a reader may hold a part of it
	dropped int64     // lines that never reached us
	lastSeq uint64

	held    []logItem // what a reader who looks back sees; nil while following
	unseen  int       // lines that match and came since
	matches []int     // into view(); those the filters let through

	level         int
	node, service string // only these; "" = all
	needle        string
	invert        bool
	wrap, relTime bool
	pan           int

	cur, top int // into matches
	w, h     int
	nodeW    int // widths of the columns; they only grow
	svcW     int
	codeW    int
}

func newLogPane() *logPane { return &logPane{level: levelOf("info"), nodeW: 4, svcW: 7} }

// snapshot takes the recent lines after an attach or a resync. Lines known
// already are not doubled, unless the numbers began anew with the server.
func (l *logPane) snapshot(rows []shield.LogRow, restarted bool) {
	if n := len(rows); n > 0 && (restarted || rows[n-1].Seq < l.lastSeq) {
		l.lastSeq = 0
	}
	l.add(rows, 0)
}

func (l *logPane) add(rows []shield.LogRow, dropped int64) {
	l.dropped += dropped
	if len(rows) > maxLogs {
		l.dropped += int64(len(rows) - maxLogs)
		rows = rows[len(rows)-maxLogs:]
	}
	for i := range rows {
		if rows[i].Seq != 0 && rows[i].Seq <= l.lastSeq {
			continue
		}
		l.lastSeq = max(l.lastSeq, rows[i].Seq)
		l.live = append(l.live, logItem{LogRow: rows[i]})
		if !l.lets(&l.live[len(l.live)-1]) {
			continue
		}
		if l.held != nil {
			l.unseen++
		} else {
			l.matches = append(l.matches, len(l.live)-1)
		}
	}
	if len(l.live) > maxLogs+slackLogs {
		// A new array: whoever looks back keeps the old one.
		l.live = slices.Clone(l.live[len(l.live)-maxLogs:])
		if l.held == nil {
			l.match()
		}
	}
	if l.held == nil {
		l.cur = max(len(l.matches)-1, 0)
	}
}

func (l *logPane) view() []logItem {
	if l.held != nil {
		return l.held
	}
	return l.live
}

func (l *logPane) lets(it *logItem) bool {
	if levelOf(it.Level) < l.level || l.node != "" && string(it.Node) != l.node || l.service != "" && it.Service != l.service {
		return false
	}
	if l.needle == "" {
		return true
	}
	if it.hay == "" {
		it.hay = strings.ToLower(it.Level + " " + string(it.Node) + " " + it.Service + " " + it.Event + " " + it.Text)
	}
	return strings.Contains(it.hay, l.needle) != l.invert
}

// match applies the filters anew and keeps the cursor on its line.
func (l *logPane) match() {
	rows := l.view()
	at := -1
	if l.held != nil && l.cur < len(l.matches) {
		at = l.matches[l.cur]
	}
	l.matches = l.matches[:0]
	l.cur = 0
	for i := range rows {
		if l.lets(&rows[i]) {
			if i <= at {
				l.cur = len(l.matches)
			}
			l.matches = append(l.matches, i)
		}
	}
	if l.held == nil {
		l.cur = max(len(l.matches)-1, 0)
	}
	l.top = min(l.top, l.cur)
}

// hold stops following: what is shown now stays.
func (l *logPane) hold() {
	if l.held == nil && len(l.live) > 0 {
		var cut bool
		if l.top, cut = l.firstShown(); cut {
			l.top++
		}
		l.held = l.live[:len(l.live):len(l.live)]
		l.unseen = 0
	}
}

// follow returns to the newest line.
func (l *logPane) follow() {
	l.held, l.unseen = nil, 0
	l.match()
}

func (l *logPane) following() bool { return l.held == nil }

func (l *logPane) setSize(w, h int) { l.w, l.h = w, h }

func (l *logPane) setFilter(text string) {
	text = strings.ToLower(text)
	l.needle, l.invert = strings.TrimPrefix(text, "!"), strings.HasPrefix(text, "!")
	l.match()
}

func (l *logPane) setLevel(n int) { l.level = n; l.match() }

func (l *logPane) only(node, service string) {
	l.node, l.service = node, service
	l.follow()
}

func (l *logPane) counts() (shown, total int) { return len(l.matches), len(l.view()) }

func (l *logPane) move(n int) { l.moveTo(l.cur + n) }

func (l *logPane) moveTo(i int) {
	if len(l.matches) == 0 {
		return
	}
	i = max(min(i, len(l.matches)-1), 0)
	if i != l.cur {
		l.hold()
	}
	l.cur = i
}

// nextTrouble moves to the next line that warns, round the end.
func (l *logPane) nextTrouble() bool {
	rows := l.view()
	for step := 1; step <= len(l.matches); step++ {
		i := (l.cur + step) % len(l.matches)
		if levelOf(rows[l.matches[i]].Level) >= levelOf("warn") {
			l.moveTo(i)
			l.hold()
			return true
		}
	}
	return false
}

// panStep is how many cells one key pans the log.
const panStep = 8

// panBy moves sideways.
func (l *logPane) panBy(n int) { l.pan = max(l.pan+n, 0) }

// clampPan ends panning where the longest line in sight ends.
func (l *logPane) clampPan(p *pen, rows []logItem, first int) {
	if l.pan == 0 || l.wrap {
		return
	}
	widest := 0
	for i := first; i < min(len(l.matches), first+l.h); i++ {
		for _, text := range l.texts(p, &rows[l.matches[i]]) {
			widest = max(widest, grid.Width(text))
		}
	}
	l.pan = max(min(l.pan, widest-(l.w-l.indent())), 0)
}

func (l *logPane) selected() *logItem {
	if l.cur >= len(l.matches) {
		return nil
	}
	return &l.view()[l.matches[l.cur]]
}

func (l *logPane) json() string {
	it := l.selected()
	if it == nil {
		return ""
	}
	b, err := json.Marshal(it.LogRow)
	if err != nil {
		return ""
	}
	return string(b)
}

// firstShown is the match at the top of the screen while following; cut says
// that its first lines are beyond the edge.
func (l *logPane) firstShown() (first int, cut bool) {
	lines, i := 0, len(l.matches)
	for i > 0 && lines < l.h {
		i--
		lines += len(l.texts(nil, &l.view()[l.matches[i]]))
	}
	return i, lines > l.h
}

// texts is what a log row says, a line each: a traceback stays one block. With
// a pen it is clean.
func (l *logPane) texts(p *pen, it *logItem) []string {
	var out []string
	for part := range strings.SplitSeq(strings.TrimRight(it.Text, "\n"), "\n") {
		if p != nil {
			part = p.clean(strings.ReplaceAll(part, "\t", "  "))
		}
		if l.wrap {
			out = append(out, grid.Wrap(part, max(l.w-l.indent(), 16))...)
		} else {
			out = append(out, part)
		}
		if len(out) >= maxBlock {
			break
		}
	}
	return out
}

// maxBlock is how many lines of one message are shown.
const maxBlock = 40

// indent is the room that time, level, node, service and code take.
func (l *logPane) indent() int {
	n := 1 + l.timeW() + 1 + 5 + 1 + l.nodeW + 1 + l.svcW + 1
	if l.codeW > 0 && l.lens() {
		n += l.codeW + 1
	}
	return n
}

func (l *logPane) lens() bool { return l.w >= 116 }

func (l *logPane) timeW() int {
	if l.w < 76 {
		return 8
	}
	return 12
}

// note says what is not on the screen, and whether it follows.
func (l *logPane) note() string {
	note := "FOLLOW"
	if !l.following() {
		note = "PAUSED  +" + strconv.Itoa(l.unseen) + " new"
	}
	switch {
	case l.wrap:
		note = "wrapped  " + note
	case l.pan > 0:
		note = "from column " + strconv.Itoa(l.pan+1) + "  " + note
	}
	if l.dropped > 0 {
		note = total(l.dropped) + " dropped  " + note
	}
	return note
}

// View prints the lines in sight, exactly h of w cells.
func (l *logPane) View(p *pen, focus bool) []string {
	if l.w <= 0 || l.h <= 0 {
		return nil
	}
	first, _ := l.firstShown()
	if !l.following() {
		first = l.scrolled(p)
	}
	rows := l.view()
	l.measure(p, rows, first)
	l.clampPan(p, rows, first)
	out := make([]string, 0, l.h)
	for i := first; i < len(l.matches) && (l.following() || len(out) < l.h); i++ {
		out = append(out, l.block(p, &rows[l.matches[i]], focus && i == l.cur)...)
	}
	if l.following() && len(out) > l.h {
		out = out[len(out)-l.h:]
	}
	if len(l.matches) == 0 {
		out = append(out, p.text(l.w, theme.Dim, " nothing at this level and filter; L changes the level, esc clears the filter"))
	}
	for len(out) < l.h {
		out = append(out, grid.Blank(l.w))
	}
	return out[:l.h]
}

// scrolled is the match at the top of the screen while looking back: where it
// was, unless the cursor would be out of sight.
func (l *logPane) scrolled(p *pen) int {
	l.top = max(min(l.top, l.cur), 0)
	lines := 0
	for i := l.cur; i >= l.top; i-- {
		lines += len(l.texts(p, &l.view()[l.matches[i]]))
		if lines > l.h {
			l.top = min(i+1, l.cur)
			break
		}
	}
	return l.top
}

func (l *logPane) measure(p *pen, rows []logItem, first int) {
	for i := first; i < min(len(l.matches), first+l.h); i++ {
		it := &rows[l.matches[i]]
		l.nodeW = max(l.nodeW, min(grid.Width(p.clean(string(it.Node))), 14))
		l.svcW = max(l.svcW, min(grid.Width(p.clean(it.Service)), 18))
		if it.Generation > 0 {
			l.codeW = max(l.codeW, min(len(codeTag(it)), 14))
		}
	}
}

func codeTag(it *logItem) string {
	if it.Generation == 0 {
		return ""
	}
	return "g" + total(int64(it.Generation)) + " " + it.Code
}

// block prints one log row, one line or more.
func (l *logPane) block(p *pen, it *logItem, current bool) []string {
	var out []string
	for i, text := range l.texts(p, it) {
		line := p.line(l.w)
		if current {
			line.Base(p.on(theme.Selected))
		}
		line.Gap(1)
		if i == 0 {
			l.prefix(p, line, it)
		} else {
			line.Gap(l.indent() - 1)
		}
		if !l.wrap {
			text = grid.Skip(text, l.pan)
		}
		out = append(out, line.Put(p.on(textRole(it)), text).String())
	}
	return out
}

func textRole(it *logItem) theme.Role {
	if r := levelRole(it.Level); r != theme.Text {
		return r
	}
	if it.Event != "" {
		return theme.Accent
	}
	return theme.Text
}

func (l *logPane) prefix(p *pen, line *grid.Line, it *logItem) {
	when := p.clock(it.Time)
	if l.relTime {
		when = p.ago(it.Time)
	}
	line.Field(p.on(theme.Dim), when, l.timeW(), l.relTime).Gap(1)
	line.Field(p.on(levelRole(it.Level)), p.clean(it.Level), 5, false).Gap(1)
	line.Field(p.on(theme.Dim), grid.CutMiddle(p.clean(orDash(string(it.Node))), l.nodeW, p.gl.Ellipsis), l.nodeW, false).Gap(1)
	line.Field(p.on(theme.Dim), grid.CutMiddle(p.clean(orDash(it.Service)), l.svcW, p.gl.Ellipsis), l.svcW, false).Gap(1)
	if l.codeW > 0 && l.lens() {
		line.Field(p.on(theme.Dim), p.clean(codeTag(it)), l.codeW, false).Gap(1)
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

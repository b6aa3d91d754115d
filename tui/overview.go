package tui

import (
	"shield/tui/grid"
	"shield/tui/keys"
)

// overview shows everything at a glance: what there is at the left, who uses it
// at the right, what happens below.
func (m *model) overview(p *pen, w, h int) []string {
	_, nodes := m.st.nodes.counts()
	logsH := max(h/4, 6)
	top := h - logsH
	nodesH := max(min(nodes+3, top/3), 5)
	routesH := max((top-nodesH)*2/5, 4)
	servicesH := top - nodesH - routesH
	left := w * 54 / 100
	right := w - left

	y := 2
	pane := func(v keys.View, x, y, w, h int) []string {
		return m.tableBox(p, v, x, y, w, h, overviewPanes[m.pane] == v)
	}
	out := grid.Beside(
		append(pane(keys.Nodes, 0, y, left, nodesH), pane(keys.Routes, 0, y+nodesH, left, routesH)...),
		pane(keys.Sessions, left, y, right, nodesH+routesH))
	out = append(out, grid.Beside(
		pane(keys.Services, 0, y+nodesH+routesH, left, servicesH),
		pane(keys.Calls, left, y+nodesH+routesH, right, servicesH))...)
	return append(out, m.logBox(p, 0, y+top, w, logsH, overviewPanes[m.pane] == keys.Logs)...)
}

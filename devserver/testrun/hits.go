package testrun

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
)

// hits counts the lines that ran in one child.
type hits struct {
	mu    sync.Mutex
	files map[string]map[int]int
}

func newHits() *hits { return &hits{files: map[string]map[int]int{}} }

// cover is a luavm.Cover. Test files don't count, nor does what is no file.
func (h *hits) cover(file string, lines []int) func(int) {
	if path.Ext(file) != ".lua" || isTestFile(file) {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	of := h.files[file]
	if of == nil {
		of = make(map[int]int, len(lines))
		h.files[file] = of
	}
	for _, line := range lines {
		of[line] += 0
	}
	return func(line int) {
		h.mu.Lock()
		of[line]++
		h.mu.Unlock()
	}
}

func (h *hits) all() map[string]map[int]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.files
}

func isTestFile(file string) bool { return strings.HasSuffix(file, "_test.lua") }

// merge adds the counts of one child to those of all.
func merge(to, from map[string]map[int]int) {
	for file, lines := range from {
		if to[file] == nil {
			to[file] = map[int]int{}
		}
		for line, n := range lines {
			to[file][line] += n
		}
	}
}

// coverage sums up counts, sorted by file.
func coverage(all map[string]map[int]int) []FileCoverage {
	var out []FileCoverage
	for _, file := range slices.Sorted(maps.Keys(all)) {
		c := FileCoverage{File: file, Total: len(all[file])}
		for _, line := range slices.Sorted(maps.Keys(all[file])) {
			if all[file][line] > 0 {
				c.Hit++
			} else {
				c.Missed = append(c.Missed, line)
			}
		}
		out = append(out, c)
	}
	return out
}

// writeLCOV writes counts as an lcov tracefile, which editors and CI services
// read.
func writeLCOV(w io.Writer, all map[string]map[int]int) error {
	b := bufio.NewWriter(w)
	for _, c := range coverage(all) {
		fmt.Fprintf(b, "TN:\nSF:%s\n", c.File)
		for _, line := range slices.Sorted(maps.Keys(all[c.File])) {
			fmt.Fprintf(b, "DA:%d,%d\n", line, all[c.File][line])
		}
		fmt.Fprintf(b, "LF:%d\nLH:%d\nend_of_record\n", c.Total, c.Hit)
	}
	return b.Flush()
}

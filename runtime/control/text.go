package control

import (
	"fmt"
	"strings"
	"time"
)

// How tools write values for people, the same wherever they are read.

// CodeText is a version of code: generation and hash, as far as they are known.
func CodeText(generation int, code string) string {
	if generation == 0 && code == "" {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", generation, code))
}

// AgeText is a length of time in a cell of a table.
func AgeText(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	default:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
}

// SizeText is a number of bytes.
func SizeText(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d MiB", n>>20)
	}
}

package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"shield/runtime/wire"
)

// version is set by the release build: -ldflags "-X main.version=1.2.3".
var version = ""

// versionRow is `shield version --json`.
type versionRow struct {
	Version string `json:"version"`
	Commit  string `json:"commit"` // "" where the build did not know it
	Dirty   bool   `json:"dirty"`  // built from a changed tree
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Wire    int    `json:"wire"` // version of the protocol between nodes
}

func thisVersion() versionRow {
	v := versionRow{Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Wire: wire.ClusterVersion}
	if info, ok := debug.ReadBuildInfo(); ok {
		if v.Version == "" && info.Main.Version != "(devel)" {
			v.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value
			case "vcs.modified":
				v.Dirty = s.Value == "true"
			}
		}
	}
	if v.Version == "" {
		v.Version = "devel"
	}
	return v
}

// versionLine is `shield --version`.
func versionLine() string {
	v := thisVersion()
	commit := "unknown"
	if v.Commit != "" {
		commit = v.Commit[:min(12, len(v.Commit))]
		if v.Dirty {
			commit += "+changes"
		}
	}
	return fmt.Sprintf("shield %s (commit %s, %s %s/%s, wire %d)", v.Version, commit, v.Go, v.OS, v.Arch, v.Wire)
}

func newVersion(io *IO) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "print version, commit, Go and wire version",
		GroupID: groupMore,
		Example: "  shield version\n  shield version --json\n  shield --version",
		Args:    args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if io.JSON {
				return io.PrintJSON(thisVersion())
			}
			_, err := fmt.Fprintln(io.Out, versionLine())
			return err
		},
	}
}

func addVersionFlag(root *cobra.Command) {
	root.Version = "set" // makes cobra accept --version
	root.SetVersionTemplate(versionLine() + "\n")
	root.Flags().Bool("version", false, "print the version")
}

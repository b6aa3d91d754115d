package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"shield/runtime/shield"
	"shield/templates"
)

// newRow is what `shield new --json` prints.
type newRow struct {
	Name     string   `json:"name"`
	Dir      string   `json:"dir"`
	Template string   `json:"template"`
	Files    []string `json:"files"`
	DryRun   bool     `json:"dry_run"`
}

func newNew(io *IO) *cobra.Command {
	var template string
	var dryRun bool
	cmd := &cobra.Command{
		Use:     "new NAME",
		Short:   "make a project in a new folder NAME",
		GroupID: groupProject,
		Example: "  shield new mygame && cd mygame\n  shield new tiny --template empty\n  shield new mygame --dry-run         # only list the files",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, a []string) error {
			return runNew(io, a[0], template, dryRun)
		},
	}
	cmd.Flags().StringVar(&template, "template", templates.Names()[0], "one of "+strings.Join(templates.Names(), ", "))
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "list the files and write nothing")
	_ = cmd.RegisterFlagCompletionFunc("template", cobra.FixedCompletions(templates.Names(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func runNew(io *IO, name, template string, dryRun bool) error {
	if err := checkProjectName(name); err != nil {
		return err
	}
	files, err := templates.Files(template, templates.Data{Name: name, Token: freshToken()})
	if err != nil {
		next := "shield new " + name
		if near := shield.Nearest(template, templates.Names()); near != "" {
			next += " --template " + near
		}
		return fail(exitUsage, next, "%w", err)
	}
	dir := filepath.Join(io.Dir, name)
	if _, err := os.Lstat(dir); err == nil {
		return fail(exitFailed, "shield new "+name+"-2", "%s is there already; nothing was written", dir)
	}
	row := newRow{Name: name, Dir: dir, Template: template, DryRun: dryRun}
	for _, f := range files {
		row.Files = append(row.Files, f.Path)
	}
	if !dryRun {
		if err := writeProject(dir, files); err != nil {
			return fail(exitFailed, "", "%w", err)
		}
	}
	if io.JSON {
		return io.PrintJSON(row)
	}
	for _, f := range row.Files {
		fmt.Fprintln(io.Out, filepath.Join(name, filepath.FromSlash(f)))
	}
	if dryRun {
		io.Note("%d files would be written", len(files))
		return nil
	}
	fmt.Fprintf(io.Err, "\n%d files written. Next:\n\n  cd %s\n  shield dev\n", len(files), name)
	return nil
}

// writeProject writes into a folder beside the final one and renames it, so that
// a full disk or Ctrl-C leaves no half of a project.
func writeProject(dir string, files []templates.File) (err error) {
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".shield-new-")
	if err != nil {
		return fmt.Errorf("make the folder %s: %w", dir, err)
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(tmp) // the first error is the one to tell
		}
	}()
	for _, f := range files {
		path := filepath.Join(tmp, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("write %s: %w", f.Path, err)
		}
		if err := os.WriteFile(path, f.Data, f.Mode); err != nil {
			return fmt.Errorf("write %s: %w", f.Path, err)
		}
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return fmt.Errorf("open the folder %s to readers: %w", dir, err)
	}
	if err := os.Rename(tmp, dir); err != nil {
		return fmt.Errorf("move the project to %s: %w", dir, err)
	}
	return nil
}

// freshToken makes the secret of a new project: 256 random bits.
func freshToken() string {
	b := make([]byte, 32)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// checkProjectName refuses names that make bad folders or bad service names, and
// suggests one that is fine.
func checkProjectName(name string) error {
	if good := projectName(name); good != name || name == "" {
		if good == "" {
			good = "mygame"
		}
		return fail(exitUsage, "shield new "+good, "%q is no name for a project: use letters, digits, - and _, at most 40, a letter first", clean(name))
	}
	return nil
}

// projectName makes a valid name of a text: "my game!" becomes my-game.
func projectName(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) || r == '_':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		case r == '-':
			b.WriteByte('-')
		}
	}
	out := strings.TrimLeft(b.String(), "0123456789-_")
	if len(out) > 40 {
		out = out[:40]
	}
	return strings.TrimRight(out, "-")
}

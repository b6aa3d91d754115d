// Command notices prints the licences of everything that is linked into the
// shield binary on any platform we ship:
//
//	go run ./internal/notices > THIRD_PARTY_NOTICES
//
// A test fails when a module is missing from that file.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if err := write(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

// module is one module that the binary contains.
type module struct {
	Path, Version, Dir string
	Main               bool
}

// linked lists the modules in the binary, on all platforms together.
func linked() ([]module, error) {
	seen := map[string]module{}
	for _, goos := range []string{"linux", "darwin", "windows"} {
		cmd := exec.Command("go", "list", "-deps", "-json=Module", "shield/cmd/shield")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list for %s: %w\n%s", goos, err, &errs)
		}
		for dec := json.NewDecoder(bytes.NewReader(out)); ; {
			var p struct{ Module *module }
			if err := dec.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("go list for %s: %w", goos, err)
			}
			if p.Module != nil && !p.Module.Main {
				seen[p.Module.Path] = *p.Module
			}
		}
	}
	var all []module
	for _, m := range seen {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	return all, nil
}

func write(w io.Writer) error {
	modules, err := linked()
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "The shield binary contains the work of others, under these licences.")
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "LICENSE"))
	if err != nil {
		return fmt.Errorf("the licence of Go itself: %w", err)
	}
	entry(w, "Go and its standard library", text)
	for _, m := range modules {
		text, err := licence(m)
		if err != nil {
			return err
		}
		entry(w, m.Path, text)
	}
	return nil
}

// licence joins the licence and notice files of a module.
func licence(m module) ([]byte, error) {
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Path, err)
	}
	var text []byte
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		for _, word := range []string{"LICENSE", "LICENCE", "COPYING", "NOTICE"} {
			if strings.HasPrefix(name, word) && !e.IsDir() {
				b, err := os.ReadFile(filepath.Join(m.Dir, e.Name()))
				if err != nil {
					return nil, fmt.Errorf("%s: %w", m.Path, err)
				}
				text = append(append(text, b...), '\n')
			}
		}
	}
	if text == nil {
		return nil, fmt.Errorf("%s has no licence file", m.Path)
	}
	return text, nil
}

func entry(w io.Writer, name string, text []byte) {
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	fmt.Fprintf(w, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 72), name, bytes.TrimSpace(text))
}

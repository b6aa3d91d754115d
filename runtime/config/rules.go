package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"shield/runtime/shield"
)

// Codecs are the codecs of this release, for routes and for listeners.
var Codecs = []string{"json", "raw", "msgpack"}

// laterCodecs are planned: known, but not here yet.
var laterCodecs = []string{"protobuf"}

// rule is the parsed form of an `is` tag: "required" and then one of any, a
// range such as 1..65535, choices such as text|json, or a check by name.
type rule struct {
	required bool
	choices  []string
	min, max string // of a range; "" = open
	ranged   bool
	check    func(v *validator, s string) (message, cure string)
}

var checks = map[string]func(v *validator, s string) (message, cure string){
	"any":             nil,
	"name":            checkName,
	"public_name":     checkPublicName,
	"script":          checkScript,
	"file":            checkFile,
	"address":         checkAddress,
	"peer":            checkPeer,
	"host":            checkHost,
	"control_address": checkControlAddress,
	"gateway":         checkGatewayID,
	"codec":           checkCodec,
	"module_path":     checkModulePath,
	"url_path":        checkURLPath,
}

// parseRule reads an `is` tag; ok is false for one that says nothing.
func parseRule(is string) (r rule, ok bool) {
	for _, word := range strings.Fields(is) {
		ok = true
		min, max, isRange := strings.Cut(word, "..")
		check, isCheck := checks[word]
		switch {
		case word == "required":
			r.required = true
		case isRange:
			r.ranged, r.min, r.max = true, min, max
		case isCheck:
			r.check = check
		case strings.Contains(word, "|"):
			r.choices = strings.Split(word, "|")
		default:
			return r, false
		}
	}
	return r, ok
}

// rules applies the tags' rules to every key of a section.
func (v *validator) rules(s reflect.Value, path string) {
	for _, f := range fieldsOf(s.Type()) {
		fv, at := s.Field(f.index), join(path, f.key)
		if f.later == "set" && !fv.IsZero() {
			v.problem(at, "leave it out", "is planned but not in this release")
			continue
		}
		if isSection(fv.Type()) {
			v.rules(fv, at)
			continue
		}
		if fv.Kind() == reflect.Slice {
			r, _ := parseRule(f.is)
			for i := range fv.Len() {
				if isSection(fv.Type().Elem()) {
					v.rules(fv.Index(i), index(at, i))
				} else {
					v.rule(r, f, fv.Index(i), index(at, i))
				}
			}
			continue
		}
		r, _ := parseRule(f.is)
		v.rule(r, f, fv, at)
	}
}

func (v *validator) rule(r rule, f field, fv reflect.Value, path string) {
	if v.broken(path) {
		return
	}
	switch {
	case fv.IsZero() && r.required:
		v.problem(path, "add "+f.key+": ...", "is required: %s", f.doc)
	case r.ranged:
		v.inRange(r, f, fv, path)
	case r.choices != nil:
		v.choice(r, f, fmt.Sprint(fv.Interface()), path)
	case r.check != nil && fv.Kind() == reflect.String:
		// An empty text is a key left out, but not inside a list.
		if s := fv.String(); s != "" || strings.HasSuffix(path, "]") {
			if message, cure := r.check(v, s); message != "" {
				v.problem(path, cure, "%s", message)
			}
		}
	}
}

func (v *validator) choice(r rule, f field, have, path string) {
	for _, c := range r.choices {
		if c == have {
			return
		}
	}
	for _, l := range strings.Split(f.later, "|") {
		if l != "" && l == have {
			v.problem(path, "this release has "+strings.Join(r.choices, ", "), "%q is planned but not in this release", have)
			return
		}
	}
	cure := "one of " + strings.Join(r.choices, ", ")
	_, number := strconv.Atoi(have)
	if near := shield.Nearest(have, r.choices); near != "" && number != nil { // no number is misspelt
		cure = fmt.Sprintf("did you mean %q?", near)
	}
	v.problem(path, cure, "unknown %s %q", strings.ReplaceAll(f.key, "_", " "), clip(have))
}

// inRange compares numbers, sizes and durations with the bounds of the rule.
func (v *validator) inRange(r rule, f field, fv reflect.Value, path string) {
	have := numeric(fv)
	low, high := bound(fv, f, r.min), bound(fv, f, r.max)
	switch {
	case r.min != "" && have < numeric(low):
		v.problem(path, "", "%s is too small, the least is %s", show(fv, f), show(low, f))
	case r.max != "" && have > numeric(high):
		v.problem(path, "", "%s is too large, the most is %s", show(fv, f), show(high, f))
	}
}

func bound(like reflect.Value, f field, text string) reflect.Value {
	out := reflect.New(like.Type()).Elem()
	if text != "" {
		if err := setText(out, f, text); err != nil {
			panic(fmt.Sprintf("config: rule of %s: %v", f.key, err)) // a test parses them all
		}
	}
	return out
}

func numeric(v reflect.Value) float64 {
	if v.Kind() == reflect.Float64 {
		return v.Float()
	}
	return float64(v.Int())
}

// show writes a value the way a file would.
func show(v reflect.Value, f field) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return x.String()
	case IDRange:
		return x.String()
	case int:
		if f.unit == "bytes" {
			return formatSize(int64(x))
		}
	}
	return fmt.Sprint(v.Interface())
}

func checkName(_ *validator, s string) (string, string) {
	if err := shield.CheckName(s); err != nil {
		return shield.AsError(err, shield.InvalidName).Message, ""
	}
	return "", ""
}

func checkPublicName(_ *validator, s string) (string, string) {
	if err := shield.CheckPublicName(s); err != nil {
		return shield.AsError(err, shield.InvalidName).Message, ""
	}
	return "", ""
}

// checkScript looks for a script the way the runtime reads it: below the project
// folder, and through no link that leads out of it.
func checkScript(v *validator, s string) (string, string) {
	local := filepath.FromSlash(s)
	if !filepath.IsLocal(local) {
		return fmt.Sprintf("%s lies outside the project", s), "scripts are read below the project's folder only"
	}
	root, err := os.OpenRoot(v.c.Dir)
	if err != nil {
		return fmt.Sprintf("the project's folder can't be opened: %v", err), ""
	}
	defer root.Close()
	st, err := root.Stat(local)
	switch {
	case err == nil && st.IsDir():
		return fmt.Sprintf("%s is a folder", s), "name a .lua file"
	case err == nil:
		return "", ""
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("%s can't be read: %v", s, errors.Unwrap(err)), ""
	}
	if near := nearFile(v.path(s)); near != "" {
		rel := filepath.ToSlash(filepath.Join(filepath.Dir(s), near))
		return fmt.Sprintf("there is no file %s", s), fmt.Sprintf("did you mean %q?", rel)
	}
	return fmt.Sprintf("there is no file %s", s), ""
}

func checkFile(v *validator, s string) (string, string) {
	st, err := os.Stat(v.path(s))
	if err != nil || st.IsDir() {
		return fmt.Sprintf("there is no file %s", s), ""
	}
	return "", ""
}

// nearFile finds the name in the same folder that is closest to path's.
func nearFile(path string) string {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return ""
	}
	// Stems are compared: what files end with is alike in all of them, and says
	// nothing about which was meant.
	ext := filepath.Ext(path)
	stems, names := []string{}, map[string]string{}
	for _, e := range entries {
		stem := strings.TrimSuffix(e.Name(), filepath.Ext(e.Name()))
		if stem == "" { // .env is no script
			continue
		}
		if !e.IsDir() && (names[stem] == "" || filepath.Ext(e.Name()) == ext) {
			stems = append(stems, stem)
			names[stem] = e.Name()
		}
	}
	return names[shield.Nearest(strings.TrimSuffix(filepath.Base(path), ext), stems)]
}

func checkAddress(_ *validator, s string) (string, string) {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Sprintf("%q is no address", clip(s)), "want host:port, such as 127.0.0.1:7001"
	}
	return checkPort(port, 0)
}

func checkPeer(_ *validator, s string) (string, string) {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" {
		return fmt.Sprintf("%q is no address of a peer", clip(s)), "want host:port, such as node-2:9000"
	}
	return checkPort(port, 1)
}

func checkPort(port string, least int) (string, string) {
	if n, err := strconv.Atoi(port); err != nil || n < least || n > 65535 {
		return fmt.Sprintf("%q is no port", clip(port)), fmt.Sprintf("ports go from %d to 65535", least)
	}
	return "", ""
}

func checkHost(_ *validator, s string) (string, string) {
	if strings.ContainsAny(s, " /\t") {
		return fmt.Sprintf("%q is no host name", clip(s)), ""
	}
	return "", ""
}

func checkControlAddress(v *validator, s string) (string, string) {
	addr, ok := strings.CutPrefix(s, "tcp://")
	if !ok {
		return fmt.Sprintf("%q is no address of the control API", clip(s)), "want tcp://host:port"
	}
	return checkAddress(v, addr)
}

func checkGatewayID(_ *validator, s string) (string, string) {
	node, name, ok := shield.SplitTarget(s)
	if !ok || shield.CheckName(string(node)) != nil || shield.CheckName(string(name)) != nil {
		return fmt.Sprintf("%q is no gateway", clip(s)), "want node:gateway, such as node-2:main"
	}
	return "", ""
}

func checkCodec(_ *validator, s string) (string, string) {
	for _, c := range Codecs {
		if s == c {
			return "", ""
		}
	}
	for _, c := range laterCodecs {
		if s == c {
			return fmt.Sprintf("the codec %q is planned but not in this release", s), "this release has " + strings.Join(Codecs, ", ")
		}
	}
	if near := shield.Nearest(s, Codecs); near != "" {
		return fmt.Sprintf("unknown codec %q", clip(s)), fmt.Sprintf("did you mean %q?", near)
	}
	return fmt.Sprintf("unknown codec %q", clip(s)), "one of " + strings.Join(Codecs, ", ")
}

func checkModulePath(_ *validator, s string) (string, string) {
	for _, part := range strings.Split(s, ";") {
		if !strings.Contains(part, "?") {
			return fmt.Sprintf("%q has no ? for the module's name", clip(part)), "such as lib/?.lua"
		}
		if !filepath.IsLocal(filepath.FromSlash(part)) {
			return fmt.Sprintf("%q leaves the project", clip(part)), "paths are relative to the project"
		}
	}
	return "", ""
}

func checkURLPath(_ *validator, s string) (string, string) {
	if !strings.HasPrefix(s, "/") || strings.ContainsAny(s, "?# ") {
		return fmt.Sprintf("%q is no path of a URL", clip(s)), "such as /ws"
	}
	return "", ""
}

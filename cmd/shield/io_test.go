package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"shield/devserver/logs"
)

// testIO is an IO in memory, in an empty folder.
func testIO(t *testing.T) (io *IO, out, errs *bytes.Buffer) {
	t.Helper()
	out, errs = new(bytes.Buffer), new(bytes.Buffer)
	return &IO{In: strings.NewReader(""), Out: out, Err: errs, Dir: t.TempDir(), Color: "auto"}, out, errs
}

type player struct {
	Name string `json:"name"`
	HP   int    `json:"hp"`
}

var playerColumns = []Column[player]{
	{Head: "NAME", Cell: func(p player) string { return p.Name }},
	{Head: "HP", Right: true, Cell: func(p player) string { return number(p.HP) }},
	{Head: "NOTE", Cell: func(p player) string { return strings.Repeat("x", p.HP) }, Paint: func(player) Paint { return Red }},
}

func TestPrint(t *testing.T) {
	rows := []player{{"ann", 8}, {"日本語", 12}, {"b\x1b[31mad\ttab\u202e", 0}}
	tests := []struct {
		name string
		set  func(io *IO)
		rows []player
		want string
	}{
		{"table", func(*IO) {}, rows,
			"NAME      HP  NOTE\nann        8  xxxxxxxx\n日本語    12  xxxxxxxxxxxx\nbad tab\ufffd   0  -\n"},
		{"a terminal cuts", func(io *IO) { io.OutTTY, io.Width, io.Color = true, 22, "never" }, rows,
			"NAME      HP  NOTE\nann        8  xxxxxxxx\n日本語    12  xxxxxxx…\nbad tab\ufffd   0  -\n"},
		{"colour", func(io *IO) { io.Color = "always" }, rows[:1],
			"\x1b[1mNAME\x1b[0m  \x1b[1mHP\x1b[0m  \x1b[1mNOTE\x1b[0m\nann    8  \x1b[31mxxxxxxxx\x1b[0m\n"},
		{"json is never coloured", func(io *IO) { io.Color, io.JSON = "always", true }, rows[:2],
			`[{"name":"ann","hp":8},{"name":"日本語","hp":12}]` + "\n"},
		{"no rows", func(*IO) {}, nil, ""},
		{"no rows as json", func(io *IO) { io.JSON = true }, nil, "[]\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			io, out, errs := testIO(t)
			tt.set(io)
			if err := Print(io, tt.rows, playerColumns, "nobody plays"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, out.String()); diff != "" {
				t.Errorf("Print (-want +have):\n%s", diff)
			}
			if told := errs.String() == "nobody plays\n"; told != (len(tt.rows) == 0 && !io.JSON) {
				t.Errorf("errors: %q", errs)
			}
		})
	}
}

// TestTableFitsAnyWidth holds that no line is wider than the terminal while its
// columns have anything left to give.
func TestTableFitsAnyWidth(t *testing.T) {
	rows := []player{{strings.Repeat("名", 40), 80}, {"ann", 3}}
	for width := 20; width < 200; width++ {
		io, out, _ := testIO(t)
		io.OutTTY, io.Width = true, width
		if err := Print(io, rows, playerColumns, ""); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if w := ansi.StringWidth(strings.TrimSuffix(line, "\n")); w > width {
				t.Fatalf("width %d: a line of %d: %q", width, w, line)
			}
		}
	}
}

// TestProseGoesOn holds that a sentence in the last column is told whole.
func TestProseGoesOn(t *testing.T) {
	columns := []Column[player]{
		{Head: "NAME", Cell: func(p player) string { return p.Name }},
		{Head: "WHY", Prose: true, Cell: func(player) string { return "the link to it is lost since noon, and nobody knows the reason" }},
	}
	io, out, _ := testIO(t)
	io.OutTTY, io.Width = true, 42
	if err := Print(io, []player{{"ann", 1}, {"bob", 1}}, columns, ""); err != nil {
		t.Fatal(err)
	}
	const want = "NAME  WHY\n" +
		"ann   the link to it is lost since noon,\n      and nobody knows the reason\n" +
		"bob   the link to it is lost since noon,\n      and nobody knows the reason\n"
	if diff := cmp.Diff(want, ansi.Strip(out.String())); diff != "" {
		t.Errorf("Print (-want +have):\n%s", diff)
	}
}

// TestSpareColumnsLeave holds that ids stay whole while less wanted columns are
// there to leave, and that what left is told.
func TestSpareColumnsLeave(t *testing.T) {
	columns := []Column[player]{
		{Head: "NAME", Cell: func(p player) string { return p.Name }},
		{Head: "EXTRA", Spare: 2, Cell: func(player) string { return "0123456789" }},
		{Head: "HP", Right: true, Cell: func(p player) string { return number(p.HP) }},
		{Head: "MORE", Spare: 1, Cell: func(player) string { return "abc" }},
	}
	rows := []player{{"s-d299956e21f8", 80}}
	for _, tt := range []struct {
		width     int
		out, errs string
	}{
		{40, "NAME            EXTRA       HP  MORE\ns-d299956e21f8  0123456789  80  abc\n", ""},
		{30, "NAME            HP  MORE\ns-d299956e21f8  80  abc\n", "a wider window shows EXTRA; -…\n"},
		{22, "NAME            HP\ns-d299956e21f8  80\n", "a wider window shows …\n"},
		{18, "NAME            HP\ns-d299956e21f8  80\n", "a wider window sh…\n"},
		{12, "NAME      HP\ns-d2999…  80\n", "a wider win…\n"},
	} {
		io, out, errs := testIO(t)
		io.OutTTY, io.Width, io.Color = true, tt.width, "never"
		if err := Print(io, rows, columns, ""); err != nil {
			t.Fatal(err)
		}
		if out.String() != tt.out || errs.String() != tt.errs {
			t.Errorf("width %d:\n%s%s\nwant\n%s%s", tt.width, out, errs, tt.out, tt.errs)
		}
	}
}

func TestColor(t *testing.T) {
	tests := []struct {
		name string
		flag string
		env  []string
		tty  bool
		want bool
	}{
		{"terminal", "auto", nil, true, true},
		{"pipe", "auto", nil, false, false},
		{"NO_COLOR has any value", "auto", []string{"NO_COLOR=yes"}, true, false},
		{"an empty NO_COLOR is none", "auto", []string{"NO_COLOR="}, true, true},
		{"NO_COLOR wins over CLICOLOR_FORCE", "auto", []string{"NO_COLOR=0", "CLICOLOR_FORCE=1"}, true, false},
		{"dumb", "auto", []string{"TERM=dumb"}, true, false},
		{"forced into a pipe", "auto", []string{"CLICOLOR_FORCE=1"}, false, true},
		{"not forced by 0", "auto", []string{"CLICOLOR_FORCE=0"}, false, false},
		{"always wins over all", "always", []string{"NO_COLOR=1", "TERM=dumb"}, false, true},
		{"never wins over all", "never", []string{"CLICOLOR_FORCE=1"}, true, false},
	}
	for _, tt := range tests {
		io := &IO{Color: tt.flag, Environ: tt.env, OutTTY: tt.tty}
		if got := io.ColorOut(); got != tt.want {
			t.Errorf("%s: ColorOut() = %v, want %v", tt.name, got, tt.want)
		}
		io.JSON = true
		if io.ColorOut() {
			t.Errorf("%s: colour with --json", tt.name)
		}
	}
}

func TestNegativeNumbersArePositional(t *testing.T) {
	io, _, _ := testIO(t)
	var got []string
	root := newRoot(io)
	root.AddCommand(allowNumbers(&cobra.Command{Use: "add", RunE: func(_ *cobra.Command, a []string) error { got = a; return nil }}))
	root.SetArgs(markNumbers(root, []string{"add", "-5", "--json", "-.5", "x", "--", "-1"}))
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"-5", "-.5", "x", "-1"}, got); diff != "" || !io.JSON {
		t.Errorf("arguments (-want +have), json %v:\n%s", io.JSON, diff)
	}
}

func TestInterruptsCancelThenLeave(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	signals := make(chan os.Signal, 2)
	left := make(chan int, 1)
	io := &IO{Signals: signals, Exit: func(code int) { left <- code }}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer watchSignals(ctx, cancel, io)()
	signals <- os.Interrupt
	<-ctx.Done()
	if got := exitOf(ctx, ctx.Err()); got != exitInterrupted {
		t.Errorf("exitOf = %d, want %d", got, exitInterrupted)
	}
	signals <- os.Interrupt
	if got := <-left; got != exitInterrupted {
		t.Errorf("Exit(%d), want %d", got, exitInterrupted)
	}
}

func TestTakenSignalsDoNotCancel(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	signals := make(chan os.Signal, 2)
	io := &IO{Signals: signals, Exit: func(int) { t.Error("Exit was called") }}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	defer watchSignals(ctx, cancel, io)()
	mine := io.TakeSignals()
	signals <- os.Interrupt
	signals <- os.Interrupt
	<-mine
	<-mine
	if ctx.Err() != nil {
		t.Error("the context was cancelled by a signal that a verb had taken")
	}
}

func TestCrashIsWrittenDown(t *testing.T) {
	io, _, errs := testIO(t)
	if err := os.WriteFile(filepath.Join(io.Dir, "shield.yaml"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	saved := verbs
	defer func() { verbs = saved }()
	verbs = append(verbs[:len(verbs):len(verbs)], func(*IO) *cobra.Command {
		return &cobra.Command{Use: "boom", Run: func(*cobra.Command, []string) { panic("boom") }}
	})
	if got := run(t.Context(), []string{"boom"}, io); got != exitInternal {
		t.Errorf("exit %d, want %d", got, exitInternal)
	}
	files, err := filepath.Glob(filepath.Join(io.Dir, ".shield", "crash-*.txt"))
	if err != nil || len(files) != 1 {
		t.Fatalf("crash files: %v, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "panic: boom") || !strings.Contains(errs.String(), files[0]) {
		t.Errorf("the file holds %q, the message is %q", text, errs)
	}
}

// TestEveryVerbIsExplained holds every verb to its help: a group, a short line,
// lines to paste.
func TestEveryVerbIsExplained(t *testing.T) {
	io, _, _ := testIO(t)
	var walk func(cmd *cobra.Command, path string)
	walk = func(cmd *cobra.Command, path string) {
		for _, c := range cmd.Commands() {
			at := strings.TrimSpace(path + " " + c.Name())
			if c.Hidden || c.Name() == "help" || strings.HasPrefix(at, "completion ") {
				continue
			}
			if c.Short == "" || strings.ToLower(c.Short[:1]) != c.Short[:1] || strings.HasSuffix(c.Short, ".") {
				t.Errorf("%s: short line %q; want one that begins small and has no full stop", at, c.Short)
			}
			if path == "" && c.GroupID == "" {
				t.Errorf("%s belongs to no group of shield help", at)
			}
			lines := strings.Split(strings.Trim(c.Example, "\n"), "\n")
			for _, l := range lines {
				if !strings.HasPrefix(l, "  ") {
					t.Errorf("%s: the line to paste %q is not indented by two", at, l)
				}
			}
			walk(c, at)
		}
	}
	walk(newRoot(io), "")
}

func TestErrorsAsJSON(t *testing.T) {
	io, out, errs := testIO(t)
	if got := run(t.Context(), []string{"check", "--json"}, io); got != exitInvalid {
		t.Errorf("exit %d, want %d", got, exitInvalid)
	}
	var have struct {
		Error errorRow `json:"error"`
	}
	if err := json.Unmarshal(errs.Bytes(), &have); err != nil {
		t.Fatalf("standard error %q: %v", errs, err)
	}
	if have.Error.Exit != exitInvalid || have.Error.Next != "shield new mygame" || out.Len() > 0 {
		t.Errorf("error = %+v, out %q", have.Error, out)
	}
}

func TestJSONHoldsNoOrders(t *testing.T) {
	io, out, _ := testIO(t)
	name := "b\x1b[31m\u009b31m\x7f\u202ead \u2066 日本語"
	if err := io.PrintJSON([]player{{Name: name}}); err != nil {
		t.Fatal(err)
	}
	for _, r := range strings.TrimSuffix(out.String(), "\n") {
		if logs.Orders(r) {
			t.Errorf("%q has %U", out, r)
		}
	}
	var have []player
	if err := json.Unmarshal(out.Bytes(), &have); err != nil || len(have) != 1 || have[0].Name != name {
		t.Errorf("%q reads as %+v, %v", out, have, err)
	}
}

func TestSaveNewOverwritesNothing(t *testing.T) {
	name := filepath.Join(t.TempDir(), "screen.txt")
	if err := saveNew(name, "one"); err != nil {
		t.Fatal(err)
	}
	if err := saveNew(name, "two"); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("saveNew over a file = %v", err)
	}
	if b, err := os.ReadFile(name); err != nil || string(b) != "one" {
		t.Errorf("the file holds %q, %v", b, err)
	}
}

func TestFullOutputIsAnError(t *testing.T) {
	io, _, errs := testIO(t)
	io.Out = brokenWriter{}
	if got := run(t.Context(), []string{"explain"}, io); got != exitFailed || !strings.Contains(errs.String(), "disk full") {
		t.Errorf("exit %d, errors %q", got, errs)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestProjectName(t *testing.T) {
	for in, want := range map[string]string{
		"mygame": "mygame", "my game!": "my-game", "9lives": "lives", "--x--": "x", "a__b": "a__b", "Ünïcode": "n-code",
		"": "", "...": "", strings.Repeat("a", 60): strings.Repeat("a", 40),
	} {
		if got := projectName(in); got != want {
			t.Errorf("projectName(%q) = %q, want %q", in, got, want)
		}
		if want != "" && projectName(want) != want {
			t.Errorf("the suggestion %q is refused itself", want)
		}
	}
}

// FuzzClean holds that foreign text can neither move the cursor nor start a line.
func FuzzClean(f *testing.F) {
	for _, s := range []string{"ann", "\x1b[31mred", "\x1b\x1b[31m[31m", "a\tb\r\n", "\u009b31m", "\x1b]8;;http://x\a", "\u202eevil", "\xff\xfe", "日本"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range clean(s) {
			if logs.Orders(r) {
				t.Errorf("clean(%q) = %q holds %U", s, clean(s), r)
			}
		}
		for line := range strings.SplitSeq(cleanLines(s), "\n") {
			if line != clean(line) {
				t.Errorf("cleanLines(%q) has the line %q", s, line)
			}
		}
	})
}

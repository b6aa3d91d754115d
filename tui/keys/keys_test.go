package keys

import (
	"slices"
	"strings"
	"testing"
)

func TestEveryKeyHasOneMeaningInAView(t *testing.T) {
	for v := range Views {
		own := map[string]string{}
		for _, b := range InView(v, true) {
			for _, k := range b.Keys {
				if other, dup := own[k]; dup {
					t.Errorf("%s: %q is %q and %q", v, k, other, b.Help)
				}
				own[k] = b.Help
			}
		}
	}
	all := map[string]string{}
	for _, b := range InView(Overview, false) {
		for _, k := range b.Keys {
			if other, dup := all[k]; dup {
				t.Errorf("everywhere: %q is %q and %q", k, other, b.Help)
			}
			all[k] = b.Help
		}
	}
}

// TestMovingIsNeverShadowed: a key of a view must not take the meaning of the
// keys that move and leave, least of all for something that destroys.
func TestMovingIsNeverShadowed(t *testing.T) {
	for v := range Views {
		for _, k := range []string{"j", "k", "g", "G", "up", "down", "esc", "q", "/", ":", "?", "y", "space"} {
			if b := Find(v, k); b == nil || !b.Everywhere() {
				t.Errorf("%s: %q does not mean what it means everywhere", v, k)
			}
		}
	}
}

func TestTableIsComplete(t *testing.T) {
	for i := range Table {
		b := &Table[i]
		if len(b.Keys) == 0 || b.Help == "" || b.Action == "" {
			t.Errorf("binding %d lacks something: %+v", i, *b)
		}
		if b.Acts != (b.Verb != "") {
			t.Errorf("%s: a key that acts names the verb it needs, and no other does", b.Help)
		}
		if (b.Short != "") != (b.Rank > 0) && b.Short != "" {
			t.Errorf("%s: in the footer without a rank", b.Help)
		}
	}
	if !slices.Contains(Find(Sessions, "K").Views, Sessions) {
		t.Error("K kicks in Sessions")
	}
	if Find(Logs, "w").Action != Wrap || Find(Nodes, "w").Action != Wide {
		t.Error("w wraps log lines and widens tables")
	}
	for _, want := range []string{"3 Sessions", "K          kick the client, asks first", "everywhere", "q          quit the console; the cluster stays"} {
		if !strings.Contains(Text(), want) {
			t.Errorf("Text lacks %q", want)
		}
	}
}

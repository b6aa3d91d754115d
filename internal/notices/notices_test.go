package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEveryModuleIsNamed(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "THIRD_PARTY_NOTICES"))
	if err != nil {
		t.Fatal(err)
	}
	modules, err := linked()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range modules {
		if !strings.Contains(string(text), "\n"+m.Path+"\n") {
			t.Errorf("THIRD_PARTY_NOTICES does not name %s; refresh it with: go run ./internal/notices > THIRD_PARTY_NOTICES", m.Path)
		}
	}
}

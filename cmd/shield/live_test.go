package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// live is a project that `shield dev` runs in a process of its own.
type live struct {
	t   *testing.T
	dir string
}

// startDev writes a project and runs it until the test ends.
func startDev(t *testing.T, files map[string]string, args ...string) *live {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("nothing interrupts a process there")
	}
	p := &live{t: t, dir: t.TempDir()}
	for name, text := range files {
		path := filepath.Join(p.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	cmd := exec.Command("shield", append([]string{"dev"}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // an interrupted program says so by its code
		if t.Failed() {
			t.Logf("shield dev said:\n%s", out.String())
		}
	})
	if got := p.shield("", "wait", "--timeout", "20s"); got.exit != 0 {
		t.Fatalf("shield wait = %+v", got)
	}
	return p
}

func (p *live) shield(stdin string, args ...string) outcome {
	p.t.Helper()
	return shieldIn(p.t, p.dir, stdin, args...)
}

// addresses lists where the gateways of the nodes are, by scheme.
func (p *live) addresses() map[string]string {
	p.t.Helper()
	got := p.shield("", "nodes", "--json")
	var rows []struct{ Gateways []string }
	if err := json.Unmarshal([]byte(got.out), &rows); err != nil {
		p.t.Fatalf("nodes --json: %v: %+v", err, got)
	}
	all := map[string]string{}
	for _, r := range rows {
		for _, a := range r.Gateways {
			scheme, _, _ := strings.Cut(a, "://")
			all[scheme] = a
		}
	}
	return all
}

// certificate makes one for this machine, in PEM.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	priv, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &priv.PublicKey, priv)
	if err != nil {
		t.Fatal(err)
	}
	der8, err := x509.MarshalPKCS8PrivateKey(priv)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der8}))
}

const transportsYAML = `
app: { name: transports }
services:
  - { name: auth, script: auth.lua }
gateways:
  - name: main
    auth: auth
    network:
      tcp: 127.0.0.1:0
      tls: 127.0.0.1:0
      ws: 127.0.0.1:0
      wss: 127.0.0.1:0
      ws_path: /play
      cert: cert.pem
      key: key.pem
`

const transportsRPC = `
routes:
  - { id: 1001, name: auth.login, dir: c2s, service: auth, handler: login, auth: false }
  - { id: 1002, name: chat.say, dir: c2s, service: auth, handler: say }
  - { id: 2001, name: auth.login_ok, dir: s2c }
  - { id: 2002, name: chat.said, dir: s2c }
`

const transportsLua = `
local M = {}
function M.login(ctx, client, request)
  local ref = shield.client.bind(client, shield.self(), request.name)
  shield.client_rpc.auth.login_ok(ref, { player = request.name })
end
function M.say(ctx, client, request)
  shield.client_rpc.chat.said(client, request)
  if request.text == "bye" then shield.client.close(client, "good bye") end
end
return M
`

// TestClientOverEveryTransport plays the same script over every listener of a
// live gateway, with a certificate of its own.
func TestClientOverEveryTransport(t *testing.T) {
	cert, key := certificate(t)
	p := startDev(t, map[string]string{"shield.yaml": transportsYAML, "rpc.yaml": transportsRPC, "auth.lua": transportsLua, "cert.pem": cert, "key.pem": key})
	at := p.addresses()
	script := `auth.login {"name":"ann"}
expect auth.login_ok {"player":"ann"}
chat.say {"text":"hi"}
expect chat.said {"text":"hi"}
chat.say {"text":"bye"}
expect chat.said
expect-close good bye
`
	const want = `auth.login_ok {"player":"ann"}
chat.said {"text":"hi"}
chat.said {"text":"bye"}
closed good bye
`
	for _, tt := range []struct {
		scheme string
		flags  []string
		err    string // "" = it plays
	}{
		{"tcp", nil, ""},
		{"ws", nil, ""},
		{"tls", []string{"--ca", "cert.pem"}, ""},
		{"wss", []string{"--ca", "cert.pem"}, ""},
		{"tls", []string{"--insecure"}, ""},
		{"wss", []string{"--insecure"}, ""},
		{"tls", nil, "the gateway's certificate is not trusted"},
		{"wss", nil, "the gateway's certificate is not trusted"},
		{"tls", []string{"--ca", "key.pem"}, "no PEM certificate is in it"},
		{"tls", []string{"--ca", "nowhere.pem"}, "--ca: open"},
		{"tls", []string{"--ca", "cert.pem", "--insecure"}, "none of the others can be"},
	} {
		got := p.shield(script, append([]string{"client", at[tt.scheme]}, tt.flags...)...)
		if tt.err == "" && (got.exit != 0 || got.out != want) {
			t.Errorf("%s %v = %+v", tt.scheme, tt.flags, got)
		}
		if tt.err != "" && (got.exit == 0 || !strings.Contains(got.err, tt.err)) {
			t.Errorf("%s %v = %+v, want an error with %q", tt.scheme, tt.flags, got, tt.err)
		}
	}
	// Without an address the plainest one is taken.
	if got := p.shield(script, "client"); got.exit != 0 || !strings.Contains(got.err, at["tcp"]) {
		t.Errorf("client = %+v, want %s", got, at["tcp"])
	}
}

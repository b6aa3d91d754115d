package node

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificate is what a gateway's tls and wss listeners show their clients. Its
// files may be renewed while the node runs.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu        sync.Mutex
	pair      *tls.Certificate
	cert, key []byte // what pair was made of
	looked    time.Time
}

// certEvery is how often a new client makes the node look at the files.
const certEvery = time.Minute

func loadCertificate(certFile, keyFile string, log *slog.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log, looked: time.Now()}
	if _, err := c.read(); err != nil {
		return nil, fmt.Errorf("load network.cert and network.key: %w", err)
	}
	return c, nil
}

// read takes the files if they are others than before.
func (c *certificate) read() (renewed bool, err error) {
	cert, err := os.ReadFile(c.certFile)
	if err != nil {
		return false, err
	}
	key, err := os.ReadFile(c.keyFile)
	if err != nil {
		return false, err
	}
	if bytes.Equal(cert, c.cert) && bytes.Equal(key, c.key) {
		return false, nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return false, fmt.Errorf("%s and %s: %w", c.certFile, c.keyFile, err)
	}
	c.pair, c.cert, c.key = &pair, cert, key
	return true, nil
}

// get is a tls.Config's GetCertificate. Files that are half renewed leave the
// certificate as it was.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < certEvery {
		return c.pair, nil
	}
	c.looked = time.Now()
	renewed, err := c.read()
	switch {
	case err != nil:
		c.log.Warn("clients see the old certificate: the files can't be read; a good pair is taken within a minute", "service", "gateway", "err", err)
	case renewed:
		c.log.Info("clients see the renewed certificate", "service", "gateway", "file", c.certFile, "until", c.pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return c.pair, nil
}

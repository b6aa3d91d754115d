package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pemPair makes a certificate with a number of its own.
func pemPair(t *testing.T, serial int64) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Unix(1<<33, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// A renewed certificate is shown within a minute, without a restart; half of a
// renewal changes nothing.
func TestACertificateIsRenewed(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write := func(file string, b []byte) {
		t.Helper()
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		logger := slog.New(slog.NewTextHandler(&log, nil))
		if _, err := loadCertificate(certFile, keyFile, logger); err == nil || !strings.Contains(err.Error(), "network.cert") {
			t.Errorf("load without files: %v, want an error that names network.cert", err)
		}
		cert, key := pemPair(t, 1)
		write(certFile, cert)
		write(keyFile, key)
		c, err := loadCertificate(certFile, keyFile, logger)
		if err != nil {
			t.Fatal(err)
		}
		shows := func(serial int64) {
			t.Helper()
			pair, err := c.get(nil)
			if err != nil || pair.Leaf.SerialNumber.Int64() != serial {
				t.Errorf("clients see %v, %v, want number %d", pair.Leaf.SerialNumber, err, serial)
			}
		}
		shows(1)
		cert, key = pemPair(t, 2)
		write(certFile, cert)
		time.Sleep(certEvery)
		shows(1)
		if !strings.Contains(log.String(), "old certificate") {
			t.Errorf("nothing is said of half a renewal:\n%s", &log)
		}
		write(keyFile, key)
		shows(1) // a flood of clients reads no files
		time.Sleep(certEvery)
		shows(2)
		if !strings.Contains(log.String(), "renewed certificate") {
			t.Errorf("nothing is said of the renewal:\n%s", &log)
		}
	})
}

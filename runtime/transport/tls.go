package transport

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"shield/runtime/shield"
)

// certificate is made once a process. It proves nothing: QUIC needs one, and the
// cluster's handshake binds its proofs to the connection instead. It is valid
// for any clock that a machine or a test may have.
var certificate = sync.OnceValues(func() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:     time.Date(2049, 12, 31, 0, 0, 0, 0, time.UTC),
		DNSNames:     []string{"shield"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
})

// tlsConfig is used by both ends of a link.
func tlsConfig() (*tls.Config, error) {
	cert, err := certificate()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates:           []tls.Certificate{cert},
		NextProtos:             []string{ALPN},
		MinVersion:             tls.VersionTLS13,
		ServerName:             "shield",
		SessionTicketsDisabled: true,
		// Who the peer is, the cluster's handshake proves over the exporter of
		// this connection; a certificate made a moment ago says nothing.
		InsecureSkipVerify: true,
	}, nil
}

// resetKey lets a restarted node reset the connections of its earlier life: it
// depends on nothing that a restart changes.
func resetKey(token string, node shield.NodeID) quic.StatelessResetKey {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("shield-cluster/2 stateless reset\x00" + string(node)))
	return quic.StatelessResetKey(mac.Sum(nil))
}

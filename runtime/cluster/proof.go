package cluster

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"shield/runtime/wire"
)

// exporterLabel names the keying material that binds a proof to its connection.
const exporterLabel = "EXPORTER-shield-cluster-2"

const (
	proofAck = "shield-cluster/2 hello_ack"
	proofFin = "shield-cluster/2 hello_fin"
)

// proof answers a challenge: HMAC-SHA256 of the key over what it is for, the
// connection's exporter and every message so far, each with its length. Both
// nonces, identities, epochs, addresses, features and clocks are in there.
func proof(key []byte, purpose string, exporter []byte, messages ...[]byte) (p [wire.ProofSize]byte) {
	mac := hmac.New(sha256.New, key)
	var n [4]byte
	for _, part := range append([][]byte{[]byte(purpose), exporter}, messages...) {
		binary.BigEndian.PutUint32(n[:], uint32(len(part)))
		mac.Write(n[:])
		mac.Write(part)
	}
	mac.Sum(p[:0])
	return p
}

// keys turns the configured tokens into HMAC keys, the node's own first.
func (a *Auth) keys() [][]byte {
	if a.Mode != wire.AuthToken {
		return nil
	}
	var keys [][]byte
	for _, token := range []string{a.Token, a.Previous} {
		if token == "" {
			continue
		}
		mac := hmac.New(sha256.New, []byte(token))
		mac.Write([]byte("shield-cluster/2 key"))
		keys = append(keys, mac.Sum(nil))
	}
	return keys
}

// replays remembers the challenges that peers have used, so that none is used
// twice. It is bounded in number and in time; the proofs are bound to their
// connection anyway.
type replays struct {
	seen map[[wire.NonceSize]byte]time.Duration
	ring [][wire.NonceSize]byte
	next int
}

const (
	maxReplays = 4096
	replayTime = time.Minute
)

func newReplays() *replays { return &replays{seen: map[[wire.NonceSize]byte]time.Duration{}} }

// fresh records nonce and reports whether it had not been used before.
func (r *replays) fresh(nonce [wire.NonceSize]byte, now time.Duration) bool {
	if at, ok := r.seen[nonce]; ok && now-at < replayTime {
		return false
	}
	r.seen[nonce] = now
	if len(r.ring) < maxReplays {
		r.ring = append(r.ring, nonce)
		return true
	}
	if old := r.ring[r.next]; old != nonce {
		delete(r.seen, old)
	}
	r.ring[r.next] = nonce
	r.next = (r.next + 1) % maxReplays
	return true
}

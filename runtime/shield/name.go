package shield

import "strings"

// Name is what a service publishes itself under: 1 to 64 of A-Z a-z 0-9 _ . -
type Name string

// MaxName is the longest name, in bytes.
const MaxName = 64

// ReservedPrefix begins the names that only the runtime may publish.
const ReservedPrefix = "shield."

// CheckName says why s can't be a name, or nil. The error carries invalid_name.
func CheckName(s string) error {
	switch {
	case s == "":
		return Errorf(InvalidName, "a name must not be empty")
	case len(s) > MaxName:
		return Errorf(InvalidName, "name %q is %d bytes long, the longest is %d", s[:16]+"...", len(s), MaxName)
	}
	for i := 0; i < len(s); i++ {
		if !nameByte(s[i]) {
			return Errorf(InvalidName, "name %q: only letters, digits, '_', '.' and '-' are allowed", s)
		}
	}
	return nil
}

// CheckPublicName is CheckName for a name that a script or a file chose: the
// runtime's own prefix is refused too.
func CheckPublicName(s string) error {
	if err := CheckName(s); err != nil {
		return err
	}
	if strings.HasPrefix(s, ReservedPrefix) {
		return Errorf(InvalidName, "name %q: the prefix %q belongs to the runtime", s, ReservedPrefix)
	}
	return nil
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '-'
}

// SplitTarget cuts "node:name". qualified is false when there is no colon, and
// then name is the whole string. Neither part is checked.
func SplitTarget(s string) (node NodeID, name Name, qualified bool) {
	n, rest, ok := cutColon(s)
	if !ok {
		return "", Name(s), false
	}
	return NodeID(n), Name(rest), true
}

func cutColon(s string) (before, after string, found bool) { return strings.Cut(s, ":") }

// Nearest returns the candidate closest to s by edit distance, or "" when none
// is close enough to be worth suggesting. Ties go to the first candidate.
func Nearest(s string, candidates []string) string {
	best, bestDist := "", len(s)/3+2
	for _, c := range candidates {
		if strings.EqualFold(s, c) {
			return c
		}
		if d := editDistance(s, c, bestDist); d < bestDist {
			best, bestDist = c, d
		}
	}
	return best
}

// editDistance is Levenshtein's, with neighbouring letters that changed places
// counted as one edit; it gives up at limit.
func editDistance(a, b string, limit int) int {
	if len(a) > 128 || len(b) > 128 || len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	prev2 := make([]int, len(b)+1)
	prev := make([]int, len(b)+1)
	cur := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return min(prev[len(b)], limit)
}

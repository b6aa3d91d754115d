//go:build !unix

package cluster_test

import "time"

func realTime() time.Duration { return 0 }

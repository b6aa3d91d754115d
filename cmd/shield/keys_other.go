//go:build !unix || aix || solaris

package main

import (
	"errors"
	"os"
)

// singleKeys is not to be had here: keys count when Enter follows them.
func singleKeys(*os.File) (restore func(), err error) { return nil, errors.ErrUnsupported }

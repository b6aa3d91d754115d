package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
)

// lasting is a flag that says how long something may take: no less than nothing,
// which the parser of pflag would let through and a server would take for none.
type lasting time.Duration

func (l *lasting) String() string { return time.Duration(*l).String() }

// Type implements pflag.Value; wanted has the words for it.
func (l *lasting) Type() string { return "duration" }

func (l *lasting) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err == nil && d < 0 {
		err = errors.New("below 0")
	}
	if err == nil {
		*l = lasting(d)
	}
	return err
}

// durationFlag adds a flag for a length of time.
func durationFlag(cmd *cobra.Command, p *time.Duration, name string, value time.Duration, usage string) {
	*p = value
	cmd.Flags().Var((*lasting)(p), name, usage)
	if value == 0 {
		cmd.Flags().Lookup(name).DefValue = "" // the usage says what it is then
	}
}

// milliseconds counts a part of one as one: 0 would mean the default.
func milliseconds(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return ms
}

// Package archtest holds the arrows and the manners of this module in the
// ordinary test run: who may import whom and why, one comment a package, files
// that can be read in one sitting, who may start goroutines and who may print.
// docs/architecture.md says it in words; the tables of the test are the law.
package archtest

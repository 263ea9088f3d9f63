// Package upgrade keeps the CRDs usable whose former versions the controller converts: the
// API server trusts the conversion webhook, and no object stays stored in a former version.
package upgrade

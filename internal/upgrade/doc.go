// Package upgrade serves CRDs that have a former version. It writes the certificate
// authority of the conversion webhook into the CRD, and stores every object again in the
// current version.
package upgrade

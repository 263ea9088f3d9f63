// Package validate judges PersistentPodStates when they are written,
// and warns of wrong annotations in pod templates.
package validate

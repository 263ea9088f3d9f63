// Package validate judges the objects of this project's own kinds when they are written,
// and warns of wrong annotations in pod templates.
package validate

// Package test holds the files that Catchwater is deployed with to what the
// programs are: the Dockerfile, docker-compose.yml, and the chart. Nothing in it
// needs a container engine or a cluster.
//
// It is a module of its own, outside the workspace, so that neither Kubernetes'
// types nor Compose's library have a say in the versions that the services link.
package test

"""Reads user data from files: tables, arrays and folders of images."""
